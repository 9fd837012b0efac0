"""A schema that combines no others, as a shape: takes its keys, gives what a value has to be.

How those within it are read is for its caller to say.
"""

from collections.abc import Callable
from typing import Any

from doppler_core.text.grammar.library_check import nothing_fits, schema_fault
from doppler_core.text.grammar.number_limits import has_number, number_schema
from doppler_core.text.grammar.pattern import format_pattern, text_schema, whole_pattern
from doppler_core.text.grammar.schema_keys import KEYS, NUMBER_KEYS, Contradiction, fault, is_a
from doppler_core.text.grammar.schema_merge import Limits
from doppler_core.text.grammar.shape import (
    NOTHING,
    NULL,
    TRUTH,
    Anything,
    List,
    Number,
    OneOf,
    Record,
    Shape,
    Text,
    either,
)

# More than any answer has: no limit.
_MANY = 10**9
# Places of a list, properties of an object: with some more, their rules are too deep or too many.
_MOST_LISTED = 2000

Read = Callable[[Any, str], Shape]


def plain_shape(keys: Limits, path: str, read: Read) -> Shape:
    """The shape of a schema with these keys, which stands at `path`. read: gives that of one within it."""
    return _Plain(keys, path, read).shape()


class _Plain:
    def __init__(self, keys: Limits, path: str, read: Read) -> None:
        self._keys = keys
        self._path = path
        self._read = read

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
        key, schema = "pattern" if "pattern" in self._keys else "format", text_schema(least, most, patterns)
        if patterns and nothing_fits(schema):
            raise Contradiction(f"{self._path}: {key}: no text matches all that holds at once")
        if patterns and (why := schema_fault(schema)):
            raise fault(self._path, key, why)
        return Text(least, most, tuple(patterns))

    def _number(self, whole: bool = False) -> Shape:
        limits = {key: self._keys[key] for key in NUMBER_KEYS if key in self._keys}
        if not has_number(limits, whole):
            return NOTHING
        if "multipleOf" in limits and nothing_fits(number_schema(whole, limits)):
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
        self._check_listed("prefixItems")
        first = [
            self._read(one, f"{self._path}/prefixItems/{at}")
            for at, one in enumerate(self._keys.get("prefixItems", ()))
        ]
        return List(tuple(first[:most]), self._optional("items", not first), least, most)

    def _object(self) -> Shape:
        least, most = self._counts("minProperties", "maxProperties")
        self._check_listed("properties")
        listed = dict(self._keys.get("properties", {}))
        required = dict.fromkeys(self._keys.get("required", ()))
        rest = self._optional("additionalProperties", "properties" not in self._keys)
        listed |= {
            name: self._keys.get("additionalProperties", True) for name in required if name not in listed
        }
        keys = {name: self._read(one, f"{self._path}/properties/{name}") for name, one in listed.items()}
        if (able := sum(shape != NOTHING for shape in keys.values())) or required or rest is None:
            self._check_counts(least, most, len(required), None if rest else able)
            return Record(tuple(keys.items()), frozenset(required), rest)
        if least > 1:
            raise fault(
                self._path,
                "minProperties",
                "a grammar can't tell that keys differ: 1 is the most it can hold",
            )
        return Record(tuple(keys.items()), frozenset(), rest, least, most)

    def _check_listed(self, key: str) -> None:
        if (count := len(self._keys.get(key, ()))) > _MOST_LISTED:
            raise fault(
                self._path, key, f"there are {count}, and {_MOST_LISTED} is the most that a grammar can hold"
            )

    def _check_counts(self, least: int, most: int | None, required: int, listed: int | None) -> None:
        if least > required:
            raise fault(self._path, "minProperties", "a grammar counts no keys: require as many by name")
        if most is not None and (listed is None or most < listed):
            raise fault(self._path, "maxProperties", "a grammar counts no keys: list no more than that")

    def _optional(self, key: str, default: bool) -> Shape | None:
        """What may stand where no place or name is given for it; None: nothing."""
        shape = self._read(self._keys.get(key, default), f"{self._path}/{key}")
        return None if shape == NOTHING else shape

    def _counts(self, low: str, high: str) -> tuple[int, int | None]:
        least, most = int(self._keys.get(low, 0)), self._keys.get(high)
        if most is not None and least > most:
            raise Contradiction(f"{self._path}: {low}: {least} is more than {high}, which is {most}")
        return least, None if most is None or most > _MANY else int(most)
