"""Schemas that combine others, taken apart: takes one, gives alternatives that combine nothing.

`$ref`, `allOf`, `anyOf` and `oneOf` are resolved at the top of the schema; those of its properties and items stay.
"""

import itertools
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from doppler_core.errors import InputError
from doppler_core.text.chat.json_values import MOST_DEEP
from doppler_core.text.grammar.schema_keys import COMBINING, KEYS, canonical, fault, is_a, limits
from doppler_core.text.grammar.schema_merge import Limits, merged

# So many combinations are no schema that somebody wrote for a model.
_MOST = 256
_DEEP = 3  # properties within each other that are looked at to tell branches of a oneOf apart


def target(root: Mapping[str, Any], ref: str, path: str) -> Any:
    """The schema that a reference means. InputError: there is none in this document."""
    found: Any = root
    if not re.fullmatch(r"#(/.*)?", ref, re.DOTALL):
        raise fault(
            path, "$ref", f"{ref[:100]!r} is not within the schema (#/...): put its definition into $defs"
        )
    for step in ref.split("/")[1:]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            raise fault(path, "$ref", f"there is no {ref[:100]} in the schema")
    return found


def alternatives(
    root: Mapping[str, Any], schema: Any, path: str, via: tuple[str, ...] = (), checked: bool = True
) -> list[Limits]:
    """What a value may be: it is allowed where one of these allows it.

    via: the references that led here. checked: InputError where a value may fit two branches of a oneOf.
    """
    if isinstance(schema, bool):
        return [{}] if schema else []
    found = limits(schema, path)
    nothing: list[Limits] = [{"enum": [None]}] if found.pop("nullable", False) else []
    combined = {key: found.pop(key) for key in COMBINING if key in found}
    all_of: list[list[Limits]] = []
    if (ref := combined.get("$ref")) is not None:
        if ref in via or len(via) > MOST_DEEP:
            raise fault(
                path, "$ref", f"{ref[:100]} is itself, or leads to one that is, with nothing in between"
            )
        all_of.append(alternatives(root, target(root, ref, path), ref, (*via, ref), checked))
    for index, part in enumerate(combined.get("allOf", ())):
        all_of.append(alternatives(root, part, f"{path}/allOf/{index}", via, checked))
    for key in ("anyOf", "oneOf"):
        branches = [
            alternatives(root, part, f"{path}/{key}/{index}", via, checked)
            for index, part in enumerate(combined.get(key, ()))
        ]
        if key == "oneOf" and checked:
            _check_apart(root, branches, path)
        if branches:
            all_of.append(_gathered(itertools.chain(*branches)))
    mine = [found]
    for group in all_of:
        mine = [both for one in mine for other in group if (both := merged(one, other, path)) is not None]
        if len(mine) > _MOST:
            raise fault(path, "anyOf", f"more than {_MOST} combinations: write the schema with fewer")
    return mine + nothing


def _gathered(schemas: Iterable[Limits]) -> list[Limits]:
    """The same, those that differ in their values alone as one: thousands of const are an enum."""
    listed: dict[str, Limits] = {}
    others: list[Limits] = []
    for schema in schemas:
        if "enum" in schema:
            beside = {key: value for key, value in schema.items() if key != "enum"}
            listed.setdefault(canonical(beside), {**beside, "enum": []})["enum"] += schema["enum"]
        else:
            others.append(schema)
    return [*listed.values(), *others]


def _check_apart(root: Mapping[str, Any], branches: list[list[Limits]], path: str) -> None:
    """InputError where a value may fit two branches of a oneOf, which only a look at the whole value could tell."""
    known: dict[str, int] = {}
    for index, branch in enumerate(branches):
        for value in itertools.chain(*(one.get("enum", ()) for one in branch)):
            if (place := known.setdefault(canonical(value), index)) != index:
                raise _not_apart(place, index, path)
    schemas = [(index, one) for index, branch in enumerate(branches) for one in _gathered(branch)]
    others = [one for one in schemas if "enum" not in one[1]]
    listed = [one for one in schemas if "enum" in one[1]]
    for (index, one), (place, other) in [
        *itertools.combinations(others, 2),
        *itertools.product(others, listed),
    ]:
        if index != place and not _apart(root, one, other, path):
            raise _not_apart(min(index, place), max(index, place), path)


def _not_apart(one: int, other: int, path: str) -> InputError:
    return fault(
        path,
        "oneOf",
        f"a value may fit both {one} and {other}: write anyOf, or give each a property with a const of its own that is "
        "required",
    )


def _apart(root: Mapping[str, Any], one: Limits, other: Limits, path: str, deep: int = _DEEP) -> bool:
    """Whether no value fits both, as far as `deep` properties within each other tell: a schema may hold itself."""
    if "enum" in one and "enum" in other:
        return not {*map(canonical, one["enum"])} & {*map(canonical, other["enum"])}
    kinds, others = (_kinds(schema) for schema in (one, other))
    if not kinds & others:
        return True
    if kinds & others != {"object"}:
        return False
    if _lacks(one, other) and _lacks(other, one):
        return True
    if not deep:
        return False
    shared = {*one.get("required", ())} & {*other.get("required", ())}
    return any(_told_apart_by(root, name, (one, other), path, deep - 1) for name in sorted(shared))


def _told_apart_by(
    root: Mapping[str, Any], name: str, pair: tuple[Limits, Limits], path: str, deep: int
) -> bool:
    """Whether no value of the property that both require fits both."""
    each = (
        alternatives(
            root, schema.get("properties", {}).get(name, True), f"{path}/properties/{name}", checked=False
        )
        for schema in pair
    )
    return all(_apart(root, left, right, path, deep) for left, right in itertools.product(*each))


def _kinds(schema: Limits) -> set[str]:
    """The types that a value may have, number for integer."""
    if "enum" in schema:
        from_values = {kind for kind in KEYS for value in schema["enum"] if is_a(value, kind)}
        return {"number" if kind == "integer" else kind for kind in from_values}
    return {"number" if kind == "integer" else kind for kind in schema.get("type", KEYS)}


def _lacks(one: Limits, other: Limits) -> bool:
    """Whether the first requires a key that the second, as a grammar closes it, never has."""
    closed = "properties" in other and other.get("additionalProperties", False) is False
    return closed and not {*one.get("required", ())} <= {*other["properties"]}
