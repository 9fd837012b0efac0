"""What a model that does as it is told would say: calls where a tool is demanded, JSON where a schema is.

Takes a request; gives Gemma 4's wire format. The values are the least that a schema allows, but for what `saying` gives.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from doppler_core.engine.request import GenerateRequest
from doppler_core.text.chat.messages import ToolResult
from doppler_core.text.grammar.form import JsonSchema
from tests.adapters.scripted_chat import last


def obedient(**values: Any) -> Callable[[GenerateRequest], str]:
    """A reply that gives parameters of these names these values, and calls each tool once."""

    def reply(request: GenerateRequest) -> str:
        if isinstance(request.prompt, str):
            return "and so on."
        results = [part for part in last(request).parts if isinstance(part, ToolResult)]
        if request.tools and request.tool_choice != "none" and not results:
            names = [tool["function"]["name"] for tool in request.tools]
            wanted = request.tool_choice if request.tool_choice in names else names[0]
            tool = request.tools[names.index(wanted)]["function"]
            return call(wanted, sample(tool.get("parameters", {}), values))
        if isinstance(request.grammar, JsonSchema):
            return json.dumps(sample(request.grammar.schema, values), ensure_ascii=False)
        return " ".join(str(result.content) for result in results) or "Hello there."

    return reply


def call(name: str, arguments: Mapping[str, Any]) -> str:
    """A call in Gemma 4's form."""
    return f"<|tool_call>call:{name}{wire(arguments)}<tool_call|>"


def wire(value: Any) -> str:
    """A value in Gemma 4's form."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{wire(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(wire, value)) + "]"
    return f'<|"|>{value}<|"|>' if isinstance(value, str) else json.dumps(value)


def sample(
    schema: Mapping[str, Any], values: Mapping[str, Any], whole: Mapping[str, Any] | None = None
) -> Any:
    """A value of a schema."""
    whole = schema if whole is None else whole
    if "$ref" in schema:
        return sample(whole["$defs"][schema["$ref"].rpartition("/")[2]], values, whole)
    if "enum" in schema or "const" in schema:
        return schema.get("enum", [schema.get("const")])[0]
    for choice in ("anyOf", "oneOf", "allOf"):
        if choice in schema:
            return sample(schema[choice][0], values, whole)
    if "properties" in schema or schema.get("type") == "object":
        properties = schema.get("properties", {})
        needed = [name for name in properties if name in schema.get("required", ()) or name in values]
        return {name: values.get(name, sample(properties[name], values, whole)) for name in needed}
    if schema.get("type") == "array":
        return [sample(schema.get("items", {}), values, whole)] * schema.get("minItems", 1)
    return {"integer": 1, "number": 0.5, "boolean": True, "null": None}.get(
        schema.get("type", ""), "some text"
    )
