"""A JSON schema as shapes: takes the schema, gives what grammars are written from. It knows no tokens and no notation.

A grammar may allow less than the schema, never more: an object that lists its properties has no others unless
`additionalProperties` says so, and a schema without a type is of the types that its keys speak of.
"""

from collections.abc import Mapping
from typing import Any

from doppler_core.errors import InputError
from doppler_core.text.chat.json_values import json_object
from doppler_core.text.grammar.library_check import schema_fault
from doppler_core.text.grammar.number_limits import has_number, number_schema
from doppler_core.text.grammar.pattern import format_pattern, text_schema, whole_pattern
from doppler_core.text.grammar.schema_alternatives import alternatives, target
from doppler_core.text.grammar.schema_keys import COMBINING, KEYS, NUMBER_KEYS, canonical, fault, is_a, limits
from doppler_core.text.grammar.schema_merge import Limits
from doppler_core.text.grammar.shape import (
    NOTHING,
    NULL,
    TRUTH,
    Anything,
    List,
    Named,
    Number,
    OneOf,
    Record,
    Shape,
    Shapes,
    Text,
    either,
    has_a_value,
)

# Definitions, and schemas merged out of several: those can be many more than somebody wrote.
_MOST_NAMED = 2000
# More than any answer has: no limit.
_MANY = 10**9


def read_schema(schema: Mapping[str, Any], where: str = "schema") -> Shapes:
    """The shapes of a schema.

    InputError: a key that a grammar can't hold, one that is malformed, or a schema that no value fits; it begins with
    `where` and names key and place.
    """
    reader = _Reader(json_object(schema, where))
    try:
        root = reader.shape(reader.root, "#")
        reader.read_named()
        reader.check(root)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    return Shapes(root, reader.named)


class _Reader:
    def __init__(self, root: dict[str, Any]) -> None:
        self.root = root
        self.named: dict[str, Shape] = {}
        self._names: dict[str, str] = {}
        self._waiting: list[tuple[str, Any, str]] = []

    def shape(self, schema: Any, path: str) -> Shape:
        """The shape of a schema that stands at `path`."""
        shape = self._as_it_stands(schema, path)
        return self._name(canonical(schema), schema, path) if shape is None else shape

    def _as_it_stands(self, schema: Any, path: str) -> Shape | None:
        """The shape of a schema whose parts can be read one by one; None where they have to be merged."""
        if isinstance(schema, bool):
            return Anything() if schema else NOTHING
        found = limits(schema, path)
        if found.keys() == {"$ref"}:
            ref = found["$ref"]
            return self._name(ref, target(self.root, ref, path), ref)
        if found.keys() == {"anyOf"}:
            return either([self.shape(one, f"{path}/anyOf/{at}") for at, one in enumerate(found["anyOf"])])
        if found.keys() == {"oneOf"}:
            alternatives(self.root, found, path)  # for its check that no two of them hold at once
            return either([self.shape(one, f"{path}/oneOf/{at}") for at, one in enumerate(found["oneOf"])])
        return None if {*COMBINING, "nullable"} & found.keys() else _Plain(self, found, path).shape()

    def read_named(self) -> None:
        """Read what the shapes so far have named, and what that names."""
        while self._waiting:
            name, schema, path = self._waiting.pop()
            shape = self._as_it_stands(schema, path)
            self.named[name] = self._merged(schema, path) if shape is None else shape

    def check(self, root: Shape) -> None:
        """InputError where the root, or something that it refers to, has no value of finite depth."""
        known: set[str] = set()
        while more := {name for name in self.named.keys() - known if has_a_value(self.named[name], known)}:
            known |= more
        if not (self.named.keys() <= known and has_a_value(root, known)):
            raise InputError(
                "no value fits it: its keys contradict each other, or it refers to itself without an end"
            )

    def _name(self, key: str, schema: Any, path: str) -> Named:
        """The shape of a schema by a name; it may refer to itself. key: what tells it from others."""
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = f"r{len(self._names)}"
            if len(self._names) > _MOST_NAMED:
                raise InputError(f"{path[:200]}: more than {_MOST_NAMED} definitions")
            self._waiting.append((name, schema, path))
        return Named(name)

    def _merged(self, schema: Any, path: str) -> Shape:
        return either([_Plain(self, one, path).shape() for one in alternatives(self.root, schema, path)])


class _Plain:
    """A schema that combines no others."""

    def __init__(self, reader: _Reader, keys: Limits, path: str) -> None:
        self._reader = reader
        self._keys = keys
        self._path = path

    def shape(self) -> Shape:
        kinds = self._kinds()
        if "enum" in self._keys:
            return self._values(kinds)
        if kinds is None:
            return Anything()
        return either([getattr(self, f"_{kind}")() for kind in kinds])

    def _kinds(self) -> list[str] | None:
        """The types that are named or spoken of; None where there are neither."""
        kinds = self._keys.get("type")
        if kinds is None and "enum" not in self._keys:
            kinds = [kind for kind, keys in KEYS.items() if any(key in self._keys for key in keys)] or None
        if kinds and "number" in kinds:
            return [kind for kind in kinds if kind != "integer"]
        return kinds

    def _values(self, kinds: list[str] | None) -> Shape:
        beside = [key for kind in kinds or KEYS for key in KEYS[kind] if key in self._keys]
        if beside:
            raise fault(self._path, beside[0], "it stands beside the values of an enum or const: take it out")
        values = [
            value for value in self._keys["enum"] if kinds is None or any(is_a(value, kind) for kind in kinds)
        ]
        return OneOf(tuple(values)) if values else NOTHING

    def _string(self) -> Shape:
        least, most = self._counts("minLength", "maxLength")
        patterns: list[str] = []
        if "pattern" in self._keys:
            patterns.append(whole_pattern(self._keys["pattern"], self._path))
        form = format_pattern(self._keys["format"], self._path) if "format" in self._keys else None
        if form is not None:
            patterns.append(form)
        if patterns and schema_fault(text_schema(least, most, patterns)):
            key = "pattern" if "pattern" in self._keys else "format"
            raise fault(self._path, key, "no text matches all that holds at once")
        return Text(least, most, tuple(patterns))

    def _number(self, whole: bool = False) -> Shape:
        limits = {key: self._keys[key] for key in NUMBER_KEYS if key in self._keys}
        if not has_number(limits, whole):
            return NOTHING
        if "multipleOf" in limits and (why := schema_fault(number_schema(whole, limits))):
            raise fault(self._path, "multipleOf", why)
        return Number(whole, tuple(limits.items()))

    def _integer(self) -> Shape:
        return self._number(whole=True)

    def _boolean(self) -> Shape:
        return TRUTH

    def _null(self) -> Shape:
        return NULL

    def _array(self) -> Shape:
        least, most = self._counts("minItems", "maxItems")
        first = [
            self._reader.shape(one, f"{self._path}/prefixItems/{at}")
            for at, one in enumerate(self._keys.get("prefixItems", ()))
        ]
        rest = self._optional("items", not first)
        if NOTHING in first:
            first, rest = first[: first.index(NOTHING)], None
        if rest is None and least > len(first):
            return NOTHING
        return List(tuple(first[:most]), rest, least, most)

    def _object(self) -> Shape:
        least, most = self._counts("minProperties", "maxProperties")
        listed = dict(self._keys.get("properties", {}))
        required = dict.fromkeys(self._keys.get("required", ()))
        rest = self._optional("additionalProperties", "properties" not in self._keys)
        listed |= {
            name: self._keys.get("additionalProperties", True) for name in required if name not in listed
        }
        keys = {
            name: self._reader.shape(one, f"{self._path}/properties/{name}") for name, one in listed.items()
        }
        if any(keys[name] == NOTHING for name in required):
            return NOTHING
        keys = {name: shape for name, shape in keys.items() if shape != NOTHING}
        if keys or rest is None:
            self._check_counts(least, most, len(required), None if rest else len(keys))
            return Record(tuple(keys.items()), frozenset(required), rest)
        if least > 1:
            raise fault(
                self._path,
                "minProperties",
                "a grammar can't tell that keys differ: 1 is the most it can hold",
            )
        return Record((), frozenset(), rest, least, most)

    def _check_counts(self, least: int, most: int | None, required: int, listed: int | None) -> None:
        if least > required:
            raise fault(self._path, "minProperties", "a grammar counts no keys: require as many by name")
        if most is not None and (listed is None or most < listed):
            raise fault(self._path, "maxProperties", "a grammar counts no keys: list no more than that")

    def _optional(self, key: str, default: bool) -> Shape | None:
        """What may stand where no place or name is given for it; None: nothing."""
        shape = self._reader.shape(self._keys.get(key, default), f"{self._path}/{key}")
        return None if shape == NOTHING else shape

    def _counts(self, low: str, high: str) -> tuple[int, int | None]:
        least, most = int(self._keys.get(low, 0)), self._keys.get(high)
        if most is not None and least > most:
            raise fault(self._path, low, f"{least} is more than {high}, which is {most}")
        return least, None if most is None or most > _MANY else int(most)
