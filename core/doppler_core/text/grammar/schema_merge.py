"""Two schemas that hold at once, as one: takes the keys that limit a value, none of which combines schemas."""

from collections.abc import Callable, Mapping
from typing import Any

from doppler_core.text.grammar.schema_keys import canonical, fault

Limits = dict[str, Any]


def merged(one: Limits, other: Limits, path: str) -> Limits | None:
    """What both allow; None where that is nothing. InputError: a key of both that can't be one."""
    found = one | other
    for key in one.keys() & other.keys():
        if canonical(one[key]) == canonical(other[key]):
            continue
        if key not in _MERGES:
            raise fault(path, key, "two of them hold at once, which a grammar can't follow: make them one")
        found[key] = _MERGES[key](one[key], other[key])
        if key in ("type", "enum") and not found[key]:
            return None
    if "items" in found and canonical(one.get("prefixItems")) != canonical(other.get("prefixItems")):
        raise fault(path, "prefixItems", "it holds together with items of another schema: make them one")
    if "properties" in found:
        found["properties"] = _properties(one, other)
    return found


def _properties(one: Limits, other: Limits) -> Limits:
    """The properties of both; one that but the first lists is to the second an additional one, and the reverse."""
    mine, theirs = one.get("properties", {}), other.get("properties", {})
    return {
        name: _both(
            mine.get(name, one.get("additionalProperties", True)),
            theirs.get(name, other.get("additionalProperties", True)),
        )
        for name in {**mine, **theirs}
    }


def _both(one: Any, other: Any) -> Any:
    """Both schemas at once. Each part stands in it once, so that merging again and again comes to an end."""
    parts: dict[str, Any] = {}
    for schema in (one, other):
        for part in schema["allOf"] if isinstance(schema, dict) and schema.keys() == {"allOf"} else [schema]:
            if part is not True:
                parts.setdefault(canonical(part), part)
    if len(parts) == 1:
        return next(iter(parts.values()))
    return {"allOf": list(parts.values())} if parts else True


def _types(one: list[str], other: list[str]) -> list[str]:
    wide, wider = ([*kinds, "integer"] if "number" in kinds else kinds for kinds in (one, other))
    return [kind for kind in dict.fromkeys(wide) if kind in wider]


def _values(one: list[Any], other: list[Any]) -> list[Any]:
    known = set(map(canonical, other))
    return [value for value in one if canonical(value) in known]


def _names(one: list[str], other: list[str]) -> list[str]:
    return list(dict.fromkeys(one + other))


_LEAST = ("minLength", "minItems", "minProperties", "minimum", "exclusiveMinimum")
_MOST = ("maxLength", "maxItems", "maxProperties", "maximum", "exclusiveMaximum")
_MERGES: Mapping[str, Callable[[Any, Any], Any]] = {
    "type": _types,
    "enum": _values,
    "required": _names,
    "properties": lambda one, other: one,  # by _properties, which reads other keys too
    "additionalProperties": _both,
    "items": _both,
    **dict.fromkeys(_LEAST, max),
    **dict.fromkeys(_MOST, min),
}
