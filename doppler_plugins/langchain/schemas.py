"""What users describe data with, to JSON Schema and back to their own class.

Takes a pydantic class (of version 2 or 1), a TypedDict, a JSON schema or an OpenAI function; gives the schema, its name,
and the parsed data as the user's class would have it.
"""

import json
from collections.abc import Mapping
from typing import Any

from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_function
from pydantic import BaseModel, ValidationError
from pydantic.v1 import BaseModel as BaseModelV1
from pydantic.v1 import ValidationError as ValidationErrorV1

from doppler_core.errors import InputError
from doppler_plugins.langchain.errors import OutputError

Described = Mapping[str, Any] | type


def json_schema(described: Described) -> dict[str, Any]:
    """The JSON schema. InputError for what describes no data.

    A pydantic class keeps its `$defs`: written out, those of a class that holds itself would have no end.
    """
    if isinstance(described, type) and issubclass(described, BaseModel):
        return described.model_json_schema()
    if isinstance(described, type) and issubclass(described, BaseModelV1):
        return described.schema()
    if isinstance(described, Mapping) and _is_schema(described):
        return dict(described)
    try:
        return convert_to_json_schema(dict(described) if isinstance(described, Mapping) else described)
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"no schema: expected a pydantic class, a TypedDict or a JSON schema ({error})"
        ) from error


def is_pydantic(described: object) -> bool:
    """Whether it is a pydantic class, of either version; data of every other kind is a dict."""
    return isinstance(described, type) and issubclass(described, BaseModel | BaseModelV1)


def schema_name(described: Described) -> str:
    """What a tool with this schema is called."""
    if isinstance(described, type):
        return described.__name__
    return str(described.get("name") or described.get("title") or "answer")


def as_function(described: Described) -> dict[str, Any]:
    """The schema as a tool, in OpenAI's form."""
    if isinstance(described, Mapping) and "name" not in described and "title" not in described:
        return _tool({"name": schema_name(described), "parameters": dict(described)})
    try:
        return _tool(convert_to_openai_function(described))
    except (ValueError, TypeError) as error:
        raise InputError(
            f"no tool: expected a pydantic class, a TypedDict or a JSON schema ({error})"
        ) from error


def _tool(function: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": function}


def strict_json(text: str) -> Any:
    """The value of a JSON text. OutputError for any other text: nothing is repaired."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise OutputError(f"the answer is not JSON ({error}): {text!r}", llm_output=text) from error


def as_described(data: Any, described: Described | None) -> Any:
    """`data` as the pydantic class that describes it, or as it is. OutputError where it does not fit."""
    try:
        if isinstance(described, type) and issubclass(described, BaseModel):
            return described.model_validate(data)
        if isinstance(described, type) and issubclass(described, BaseModelV1):
            return described.parse_obj(data)
    except (ValidationError, ValidationErrorV1) as error:
        raise OutputError(
            f"the answer is no {getattr(described, '__name__', 'such thing')}: {error}",
            llm_output=json.dumps(data, ensure_ascii=False),
        ) from error
    return data


def _is_schema(described: Mapping[str, Any]) -> bool:
    return any(key in described for key in ("type", "properties", "anyOf", "oneOf", "$ref", "enum"))
