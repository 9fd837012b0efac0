"""The keys of JSON Schema that a grammar can hold, and what may stand in them: takes one schema, gives what it limits.

It reads one schema by itself, and none that stands in it.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from doppler_core.errors import InputError

COMBINING = ("$ref", "allOf", "anyOf", "oneOf")
NUMBER_KEYS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
KEYS: Mapping[str, tuple[str, ...]] = {
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": NUMBER_KEYS,
    "integer": NUMBER_KEYS,
    "boolean": (),
    "null": (),
    "array": ("items", "prefixItems", "minItems", "maxItems"),
    "object": ("properties", "required", "additionalProperties", "minProperties", "maxProperties"),
}
# They say something to a reader, and limit nothing. A key that begins with x- does the same.
_SAYING = (
    *("title", "description", "default", "example", "examples", "deprecated", "readOnly", "writeOnly"),
    *("$comment", "$schema", "$id", "$anchor", "discriminator", "$defs", "definitions"),
    *("contentMediaType", "contentEncoding", "contentSchema"),
)


class Contradiction(InputError):
    """Keys that leave no value: what has them can't be there, and whatever has to have it neither."""


def fault(path: str, key: str, why: str) -> InputError:
    """What is wrong with a key of the schema at `path`."""
    return InputError(f"{path}: {key}: {why}")


def limits(schema: Any, path: str) -> dict[str, Any]:
    """The keys that limit a value, checked. `const` comes as an `enum` of one, `type` as a list.

    InputError: a key that a grammar can't hold, or one with a value that it can't have.
    """
    if not isinstance(schema, Mapping):
        raise InputError(
            f"{path}: expected a schema, an object or true or false, got {type(schema).__name__}"
        )
    found = {key: value for key, value in schema.items() if key not in _SAYING and not key.startswith("x-")}
    for key, value in found.items():
        check = _CHECKS.get(key)
        if check is None:
            raise fault(path, key, "a grammar can't hold this key: take it out, and check the value yourself")
        expected, holds = check
        if not holds(value):
            raise fault(path, key, f"expected {expected}, got {json.dumps(value)[:100]}")
    if isinstance(kind := found.get("type"), str):
        found["type"] = [kind]
    if "const" in found:
        value = found.pop("const")
        values = found.get("enum", [value])
        found["enum"] = [one for one in values if canonical(one) == canonical(value)]
    return found


def canonical(value: Any) -> str:
    """A text that equal JSON values have in common: 1 and 1.0 are equal, 1 and true are not."""
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return value


def is_a(value: Any, kind: str) -> bool:
    """Whether a JSON value is of a type, by JSON Schema's name."""
    if kind in ("number", "integer"):
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        return not isinstance(value, bool) and (whole or (kind == "number" and isinstance(value, float)))
    types = {"string": str, "boolean": bool, "null": type(None), "array": list, "object": dict}
    return isinstance(value, types[kind])


def _is_count(value: Any) -> bool:
    return is_a(value, "integer") and value >= 0


def _are_schemas(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_schema, value))


def _is_schema(value: Any) -> bool:
    return isinstance(value, dict | bool)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _are_types(value: Any) -> bool:
    return (
        value in KEYS
        if isinstance(value, str)
        else _are_texts(value) and bool(value) and set(value) <= set(KEYS)
    )


_Check = tuple[str, Callable[[Any], bool]]
_COUNT: _Check = ("a count", _is_count)
_NUMBER: _Check = ("a number", lambda value: is_a(value, "number"))
_TEXT: _Check = ("a text", lambda value: isinstance(value, str))
_SCHEMAS: _Check = ("a list of schemas", _are_schemas)
_SCHEMA: _Check = ("a schema", _is_schema)
_CHECKS: Mapping[str, _Check] = {
    "$ref": _TEXT,
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), _SCHEMAS),
    "type": (f"one or more of {', '.join(KEYS)}", _are_types),
    "enum": ("a list of values", lambda value: isinstance(value, list)),
    "const": ("a value", lambda value: True),
    "nullable": ("true or false", lambda value: isinstance(value, bool)),
    **dict.fromkeys(("pattern", "format"), _TEXT),
    **dict.fromkeys(
        (f"{end}{of}" for end in ("min", "max") for of in ("Length", "Items", "Properties")), _COUNT
    ),
    **dict.fromkeys(NUMBER_KEYS, _NUMBER),
    "multipleOf": ("a number over 0", lambda value: is_a(value, "number") and value > 0),
    "properties": (
        "schemas by name",
        lambda value: isinstance(value, dict) and all(map(_is_schema, value.values())),
    ),
    "required": ("a list of names", _are_texts),
    "items": ("a schema (for places, write prefixItems)", _is_schema),
    "additionalProperties": _SCHEMA,
}
