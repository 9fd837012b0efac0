"""LlamaIndex's tools as an engine reads them, and the calls in a response as LlamaIndex runs them."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from llama_index.core.base.llms.types import ChatResponse, ToolCallBlock
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.tools.types import BaseTool, ToolMetadata

from doppler_core.errors import InputError, OutputError
from doppler_plugins.adapters.schemas import class_schema, holds_itself

_QUOTED = 200  # characters of an answer in an error: its end tells why


def tool_mappings(tools: Iterable[BaseTool | Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Tools as chat APIs write them, of which some may be written so already. InputError for what is no list of them."""
    if isinstance(tools, str | Mapping) or not isinstance(tools, Iterable):
        raise InputError(f"tools is {type(tools).__name__}: expected a list of tools")
    return [tool_mapping(tool) if isinstance(tool, BaseTool) else tool for tool in tools]


def tool_mapping(tool: BaseTool) -> dict[str, Any]:
    """A tool as chat APIs write it, under its own name: LlamaIndex finds the tool of a call by that."""
    metadata = tool.metadata
    return {
        "type": "function",
        "function": {
            "name": metadata.get_name(),
            "description": metadata.description,
            "parameters": _parameters(metadata),
        },
    }


def _parameters(metadata: ToolMetadata) -> dict[str, Any]:
    """Those of the tool's class; LlamaIndex leaves out all of a class that holds itself."""
    schema = {} if metadata.fn_schema is None else class_schema(metadata.fn_schema)
    return schema if holds_itself(schema) else metadata.get_parameters_dict()


def selections(response: ChatResponse, error_on_no_tool_call: bool = True) -> list[ToolSelection]:
    """The calls of a response, whole or on its way. OutputError for none, with what could not be read as one.

    Their arguments are copies: a tool that changes what it is given does not change what the model is told it called.
    """
    calls = [
        ToolSelection(
            tool_id=block.tool_call_id or "",
            tool_name=block.tool_name,
            tool_kwargs=copy.deepcopy(block.tool_kwargs),
        )
        for block in response.message.blocks
        if isinstance(block, ToolCallBlock) and isinstance(block.tool_kwargs, dict)
    ]
    if calls or not error_on_no_tool_call:
        return calls
    invalid = response.additional_kwargs.get("invalid_tool_calls", [])
    broken = "".join(f"; {call['text'][-_QUOTED:]!r} is none: {call['error']}" for call in invalid)
    said = (response.message.content or "")[-_QUOTED:]
    raise OutputError(f"expected a tool call, got {said!r}{broken}")
