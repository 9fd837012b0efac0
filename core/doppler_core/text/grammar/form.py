"""What a grammar is: plain data that says which texts a model may make. It knows neither tokens nor the library."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class JsonSchema:
    """JSON that validates against a schema, written compactly: no whitespace between its parts.

    schema: of JSON Schema, 2020-12. An object that lists its properties has no others unless `additionalProperties`
        says so. A key that a grammar can't hold is an InputError that names it.
    """

    schema: Mapping[str, Any]


@dataclass(frozen=True)
class Regex:
    """A text that matches a regular expression from its beginning to its end, as Python's `re.fullmatch` reads it. What a
    grammar can't hold, look-around and back-references among it, is an InputError that names it."""

    pattern: str


@dataclass(frozen=True)
class Lark:
    """A text of a context-free grammar, in the Lark dialect of llguidance; its first rule is `start`.

    A control token stands in it by its name, as in `<|tool_call>`, or by its id, as in `<[48]>`.

    parts: grammars that the text refers to, `@name` for each name.
    """

    text: str
    parts: Mapping[str, "Grammar"] = field(default_factory=dict)


Grammar = JsonSchema | Regex | Lark
