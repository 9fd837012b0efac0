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
from typing_extensions import is_typeddict

from doppler_core.errors import InputError
from doppler_core.text.chat.tools import name_for
from doppler_core.text.grammar.schema_keys import COMBINING, KEYS
from doppler_plugins.adapters.schemas import class_schema, holds_itself, readable
from doppler_plugins.langchain.errors import OutputError

Described = Mapping[str, Any] | type

_ENVELOPES = ("function", "json_schema")
_KEYWORDS = frozenset(["type", "enum", "const", *COMBINING, *(key for keys in KEYS.values() for key in keys)])
_EXPECTED = "expected a pydantic class, a TypedDict or a JSON schema"


def json_schema(described: Described) -> dict[str, Any]:
    """The JSON schema. InputError for what describes no data.

    A pydantic class keeps its `$defs`: written out, those of a class that holds itself would have no end.
    """
    check_described(described)
    if isinstance(described, type) and issubclass(described, BaseModel):
        return class_schema(described)
    if isinstance(described, Mapping):
        return _written(described)[1]
    with readable(f"no schema: {_EXPECTED}"):
        if issubclass(described, BaseModelV1):
            return described.schema()
        return convert_to_json_schema(described)


def check_described(described: object) -> None:
    """InputError for what describes no data."""
    if is_typeddict(described) or (isinstance(described, Mapping) and _is_schema(_written(described)[1])):
        return
    if is_pydantic(described) and described not in (BaseModel, BaseModelV1):
        return
    raise InputError(f"no schema: {_EXPECTED}, got {described!r}")


def _is_schema(schema: Mapping[str, Any]) -> bool:
    return not _KEYWORDS.isdisjoint(schema) and isinstance(schema.get("type", ""), str | list)


def is_pydantic(described: object) -> bool:
    """Whether it is a pydantic class, of either version; data of every other kind is a dict."""
    return isinstance(described, type) and issubclass(described, BaseModel | BaseModelV1)


def schema_name(described: Described) -> str:
    """What a tool with this schema is called: nobody looks it up, so that it may be spelt as a call can hold it."""
    if isinstance(described, type):
        return _spelt(described.__name__)
    named, schema = _written(described)
    return _spelt(str(named.get("name") or schema.get("title") or ""))


def as_function(described: Described) -> dict[str, Any]:
    """The schema as a tool, in OpenAI's form."""
    check_described(described)
    if isinstance(described, Mapping):
        named, schema = _written(described)
        said = str(named.get("description") or schema.get("description") or "")
        return _tool({"name": schema_name(described), "description": said, "parameters": schema})
    with readable(f"no tool: {_EXPECTED}"):
        function = whole(convert_to_openai_function(described), described)
        return _tool({**function, "name": _spelt(function["name"])})


def whole(function: dict[str, Any], described: object) -> dict[str, Any]:
    """The function of a class that holds itself with that class's own schema: LangChain writes references out, and leaves
    those out that have no end."""
    if not (isinstance(described, type) and issubclass(described, BaseModel)):
        return function
    schema = class_schema(described)
    return {**function, "parameters": schema} if holds_itself(schema) else function


def _spelt(name: str) -> str:
    return name_for(name) or "answer"


def _tool(function: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": function}


def _written(described: Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """What names a schema that is written out, and the schema: a tool, a function, the envelope of an answer's form, or a
    JSON schema by itself."""
    inner = described.get(str(described.get("type")))
    named = inner if isinstance(inner, Mapping) and described["type"] in _ENVELOPES else described
    for key in ("parameters", "schema", "input_schema"):
        if isinstance(named.get(key), Mapping) and isinstance(named.get("name"), str):
            return named, dict(named[key])
    if named is not described or isinstance(named.get("name"), str):
        return named, {"type": "object", "properties": {}}  # a function without parameters
    return {}, dict(described)


def as_described(data: Any, described: Described | None) -> Any:
    """`data` as the pydantic class that describes it, or as it is. OutputError where it does not fit."""
    try:
        if isinstance(described, type) and issubclass(described, BaseModel):
            # As JSON: a class that is strict of values takes a date or an enum from its text there alone.
            return described.model_validate_json(json.dumps(data, ensure_ascii=False))
        if isinstance(described, type) and issubclass(described, BaseModelV1):
            return described.parse_obj(data)
    except (ValidationError, ValidationErrorV1) as error:
        raise OutputError(
            f"the answer is no {getattr(described, '__name__', 'such thing')}: {error}",
            llm_output=json.dumps(data, ensure_ascii=False),
        ) from error
    return data
