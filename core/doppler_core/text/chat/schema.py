"""Schemas in the words that models are taught: takes a JSON schema, gives an equal one without detours.

References are replaced by what they mean, but for those that lead back to themselves; "or null" becomes `nullable`.
It knows no chat format.
"""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

from doppler_core.errors import InputError
from doppler_core.text.chat.json_values import MOST_DEEP

Schema = dict[str, Any]

_MOST_SCHEMAS = 5_000  # once all references are replaced: far more than a model could read
_ONE = ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")
_SEVERAL = ("anyOf", "oneOf", "allOf", "prefixItems", "items")
_NAMED = ("properties", "patternProperties", "dependentSchemas")
# They say how the schema is written, not what a value has to be.
_OF_THE_WRITING = ("$schema", "$id", "$comment", "$defs", "definitions")
_NULL = {"type": "null"}


def plain_schema(schema: Mapping[str, Any], where: str) -> Schema:
    """The schema, plain. Definitions that lead back to themselves stand in its `$defs`.

    Raises InputError with the place of a reference that leads nowhere, or out of the schema, and of what is no schema.
    """
    return _Plain(schema).whole(where)


class _Plain:
    """One schema on its way to being plain, the definitions that are kept, and how much has been written."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._kept: dict[str, str] = {}
        self._circular: dict[str, bool] = {}
        self._left = _MOST_SCHEMAS

    def whole(self, where: str) -> Schema:
        # What the whole refers to is told where it stands, even if it leads back to itself.
        target = self._target(self._root["$ref"], where) if "$ref" in self._root else {}
        rest = {key: value for key, value in self._root.items() if key != "$ref"}
        schema = self._plain({**target, **rest} if isinstance(target, Mapping) else self._root, where, "", 0)
        schema.pop("title", None)
        definitions: Schema = {}
        while waiting := [item for item in self._kept.items() if item[1] not in definitions]:
            for reference, name in waiting:
                definitions[name] = self._plain(
                    self._target(reference, where), f"{where}: {reference}", name, 0
                )
        return {**schema, "$defs": definitions} if definitions else schema

    def _plain(self, schema: object, where: str, name: str, depth: int) -> Schema:
        """name: the property's, or the definition's."""
        self._left -= 1
        if self._left < 0 or depth > MOST_DEEP:
            raise InputError(
                f"{where[:200]}: with its references replaced the schema has more than {_MOST_SCHEMAS} parts, or parts "
                f"more than {MOST_DEEP} deep: offer a simpler one"
            )
        if isinstance(schema, bool):
            return {} if schema else {"not": {}}
        if not isinstance(schema, Mapping):
            raise InputError(f"{where}: expected a schema, got {type(schema).__name__}")
        found = {key: value for key, value in schema.items() if key not in _OF_THE_WRITING}
        if _letters(found.get("title", "")) in ("", _letters(name)):
            found.pop("title", None)
        if "$ref" in found:
            return self._replaced(found, where, name, depth)
        _check(found, where)
        found = _each(found, lambda one, key: self._plain(one, f"{where}.{key}", key, depth + 1))
        return _without_detours(found)

    def _replaced(self, schema: Schema, where: str, name: str, depth: int) -> Schema:
        reference = schema.pop("$ref")
        target = self._target(reference, where)
        if self._leads_back(reference, where):
            rest = self._plain(schema, where, name, depth + 1)
            return {"$ref": self._keep(reference), **rest}
        meant = self._plain(target, where, reference.rpartition("/")[2], depth + 1)
        rest = self._plain(schema, where, name, depth + 1)
        merged = _merged(meant, rest)
        return {"allOf": [meant], **rest} if merged is None else merged

    def _target(self, reference: object, where: str) -> Any:
        if not isinstance(reference, str) or (reference != "#" and not reference.startswith("#/")):
            raise InputError(f"{where}: $ref is {reference!r}: expected one within the schema, '#/$defs/...'")
        target: Any = self._root
        for step in reference[1:].split("/")[1:]:
            step = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(target, list) and step.isdecimal() and int(step) < len(target):
                target = target[int(step)]
            elif isinstance(target, Mapping) and step in target:
                target = target[step]
            else:
                raise InputError(f"{where}: $ref {reference!r} leads nowhere: there is no {step!r}")
        return target

    def _leads_back(self, reference: str, where: str) -> bool:
        """Whether what a reference means leads to the same reference."""
        if reference not in self._circular:
            seen, waiting = set[str](), [self._target(reference, where)]
            while waiting:
                found = _references(waiting.pop(), where) - seen
                seen |= found
                waiting += [self._target(one, where) for one in found]
            self._circular[reference] = reference in seen
        return self._circular[reference]

    def _keep(self, reference: str) -> str:
        if reference == "#":
            return reference
        if reference not in self._kept:
            name = reference.rpartition("/")[2]
            while name in self._kept.values():
                name += "_"
            self._kept[reference] = name
        return f"#/$defs/{self._kept[reference]}"


def _check(schema: Schema, where: str) -> None:
    for key in _NAMED:
        if not isinstance(schema.get(key, {}), Mapping):
            raise InputError(f"{where}.{key}: expected an object, got {type(schema[key]).__name__}")
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise InputError(f"{where}.required: expected a list of names, got {required!r}"[:300])


def _each(schema: Mapping[str, Any], change: Callable[[Any, str], Any]) -> Schema:
    """The schema with each one that it directly holds changed; what is data stays."""
    found = dict(schema)
    for key, value in schema.items():
        if key in _ONE and isinstance(value, Mapping):
            found[key] = change(value, key)
        elif key in _SEVERAL and isinstance(value, list):
            found[key] = [
                one if isinstance(one, bool) else change(one, f"{key}[{at}]") for at, one in enumerate(value)
            ]
        elif key in _NAMED:
            found[key] = {name: change(one, name) for name, one in value.items()}
    return found


def _inner(schema: Mapping[str, Any]) -> list[Any]:
    """The schemas that one directly holds."""
    found: list[Any] = []
    _each(schema, lambda one, _: found.append(one))
    return found


def _references(schema: object, where: str) -> set[str]:
    """The references that a schema, and all that it holds, makes."""
    found: set[str] = set()
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            if isinstance(one.get("$ref"), str):
                found.add(one["$ref"])
            _check(dict(one), where)
            waiting += _inner(one)
    return found


def _without_detours(schema: Schema) -> Schema:
    """`nullable` in place of an alternative that is null, one alternative in place of a choice of one."""
    types = schema.get("type")
    if isinstance(types, list) and "null" in types and len(types) > 1:
        left = [one for one in types if one != "null"]
        schema = {**schema, "type": left[0] if len(left) == 1 else left, "nullable": True}
    for key in ("anyOf", "oneOf", "allOf"):
        choices = schema.get(key)
        if not isinstance(choices, list):
            continue
        rest = {name: value for name, value in schema.items() if name != key}
        others = [one for one in choices if one != _NULL]
        if key != "allOf" and 0 < len(others) < len(choices):
            rest["nullable"] = True
        elif len(others) < len(choices):
            continue
        schema = {**rest, key: others}
        if len(others) == 1 and isinstance(others[0], dict):
            merged = _merged(others[0], rest)
            schema = schema if merged is None else merged
    return schema


def _merged(inner: Schema, outer: Schema) -> Schema | None:
    """One schema that says what both say; None where they speak of the same and differ."""
    merged = {**inner, **outer}
    for key in inner.keys() & outer.keys():
        if inner[key] == outer[key]:
            continue
        if key == "description":
            merged[key] = f"{outer[key]}\n{inner[key]}"
        elif key != "title":
            return None
    return merged


def _letters(title: object) -> str | None:
    """What a name and the title made from it have in common; None for what is no text."""
    return "".join(filter(str.isalnum, title)).lower() if isinstance(title, str) else None
