"""Tools as chat APIs and frameworks write them: takes mappings, gives Tools. It knows no chat format."""

from collections.abc import Iterable, Mapping
from typing import Any

from doppler_core.errors import InputError
from doppler_core.text.chat.messages import Tool


def read_tools(tools: Iterable[Tool | Mapping[str, Any]]) -> tuple[Tool, ...]:
    """Check the tools that are offered: Tool, OpenAI's {"type": "function", "function": {...}}, the bare
    {"name", "description", "parameters"}, or Anthropic's with `input_schema`."""
    return tuple(_tool(tool) for tool in tools)


def _tool(tool: Tool | Mapping[str, Any]) -> Tool:
    if isinstance(tool, Tool):
        return tool
    body = tool.get("function", tool)
    if not isinstance(body, Mapping) or not isinstance(body.get("name"), str):
        raise InputError("tools: expected a tool with a name")
    parameters = body.get("parameters") or body.get("input_schema") or {}
    return Tool(body["name"], body.get("description") or "", parameters)
