"""A JSON schema as shapes: takes the schema, gives what grammars are written from. It knows no tokens and no notation.

A grammar may allow less than the schema, never more: an object that lists its properties has no others unless
`additionalProperties` says so, and a schema without a type is of the types that its keys speak of.
"""

from collections.abc import Mapping
from typing import Any

from doppler_core.errors import InputError
from doppler_core.text.chat.json_values import json_object
from doppler_core.text.grammar.possible import possible
from doppler_core.text.grammar.schema_alternatives import alternatives, target
from doppler_core.text.grammar.schema_keys import COMBINING, Contradiction, canonical, limits
from doppler_core.text.grammar.schema_merge import Limits
from doppler_core.text.grammar.schema_plain import plain_shape
from doppler_core.text.grammar.shape import NOTHING, Anything, Named, Shape, Shapes, either

# Definitions, and schemas merged out of several: those can be many more than somebody wrote.
_MOST_NAMED = 2000
_NO_VALUE = "no value fits it: its keys contradict each other, or it refers to itself without an end"


def read_schema(schema: Mapping[str, Any], where: str = "schema") -> Shapes:
    """The shapes of a schema.

    InputError: a key that a grammar can't hold, one that is malformed, or a schema that no value fits; it begins with
    `where` and names key and place.
    """
    reader = _Reader(json_object(schema, where))
    try:
        return reader.shapes()
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


class _Reader:
    def __init__(self, root: dict[str, Any]) -> None:
        self.root = root
        self.named: dict[str, Shape] = {}
        self._names: dict[str, str] = {}
        self._waiting: list[tuple[str, Any, str]] = []
        self._contradictions: list[Contradiction] = []

    def shapes(self) -> Shapes:
        """All that the root is."""
        root = self.shape(self.root, "#")
        self._read_named()
        found = possible(Shapes(root, self.named))
        if found is None:
            raise next(iter(self._contradictions), InputError(_NO_VALUE))
        return found

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
        return None if {*COMBINING, "nullable"} & found.keys() else self._plain(found, path)

    def _plain(self, keys: Limits, path: str) -> Shape:
        """The shape of keys that combine nothing; of those that contradict each other it is NOTHING, and why is kept."""
        try:
            return plain_shape(keys, path, self.shape)
        except Contradiction as error:
            self._contradictions.append(error)
            return NOTHING

    def _read_named(self) -> None:
        """Read what the shapes so far have named, and what that names."""
        while self._waiting:
            name, schema, path = self._waiting.pop()
            shape = self._as_it_stands(schema, path)
            self.named[name] = self._merged(schema, path) if shape is None else shape

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
        return either([self._plain(one, path) for one in alternatives(self.root, schema, path)])
