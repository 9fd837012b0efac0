"""Tools and the form of an answer, as LangChain's users and agents say them.

Takes what `bind_tools`, `bind` and `create_agent` pass; gives fields of a GenerateRequest.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from doppler_core.errors import InputError
from doppler_core.text.grammar.form import Grammar, JsonSchema
from doppler_plugins.adapters.schemas import readable
from doppler_plugins.langchain.schemas import json_schema, whole

AnyTool = Mapping[str, Any] | type | Callable[..., Any] | BaseTool


def tool_mappings(tools: Sequence[AnyTool]) -> list[dict[str, Any]]:
    """Each tool in OpenAI's form. InputError for one that has none."""
    if isinstance(tools, str | Mapping) or not isinstance(tools, Sequence):
        raise InputError(f"tools is {type(tools).__name__}: expected a list of tools")
    return [_tool_mapping(tool) for tool in tools]


def _tool_mapping(tool: AnyTool) -> dict[str, Any]:
    with readable(f"a tool that can't be read, {tool!r:.80}"):
        found = convert_to_openai_tool(tool)
    if not isinstance(found.get("function"), Mapping):
        raise InputError(
            f"a tool of type {found.get('type')!r} runs at a provider's: expected one with a function of yours"
        )
    described = tool.tool_call_schema if isinstance(tool, BaseTool) else tool
    return {**found, "function": whole(dict(found["function"]), described)}


def answer_grammar(response_format: Any, grammar: Any) -> Grammar | None:
    """What limits the text of an answer.

    response_format: OpenAI's envelope ({"type": "json_schema", "json_schema": {"schema": ...}}, {"type": "json_object"},
    {"type": "text"}), or what `with_structured_output` takes. grammar: a JsonSchema, Regex or Lark of core.
    """
    if grammar is not None:
        if not isinstance(grammar, get_args(Grammar)):
            raise InputError(f"grammar is {type(grammar).__name__}: expected a JsonSchema, Regex or Lark")
        if response_format is not None:
            raise InputError("response_format and grammar: give one of the two")
        return grammar  # type: ignore[no-any-return]
    if response_format is None:
        return None
    kind = response_format.get("type") if isinstance(response_format, Mapping) else None
    if kind == "text":
        return None
    if kind == "json_object":
        return JsonSchema({"type": "object"})
    if kind == "json_schema":
        envelope = response_format.get("json_schema", response_format)
        schema = envelope.get("schema") if isinstance(envelope, Mapping) else None
        if not isinstance(schema, Mapping):
            raise InputError("response_format: expected json_schema with a schema, an object of JSON Schema")
        return JsonSchema(schema)
    return JsonSchema(json_schema(response_format))
