"""What a notation has to say of itself for values to be written in it: all but lists, numbers, commas and braces."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from doppler_core.text.grammar.shape import Text


class Rules(Protocol):
    """Collects lines of Lark."""

    def rule(self, body: str) -> str:
        """The name of a rule with this body. Equal bodies have one name."""

    def terminal(self, body: str) -> str:
        """The name of a terminal with this body, in which expressions may be joined by & and ~."""


class Notation(Protocol):
    """How JSON values are written. The texts that it gives stand in the bodies of rules."""

    @property
    def shared(self) -> str:
        """Rules that every grammar has: `anytext`, any text, and `anykey`, a key of nobody's choice."""

    def in_order(self, keys: Mapping[str, Any]) -> Sequence[tuple[str, Any]]:
        """The items of an object as they follow each other."""

    def key(self, key: str) -> str:
        """A key and its colon."""

    def other_key(self, taken: Sequence[str], rules: Rules) -> str:
        """A key of nobody's choice that is none of those taken."""

    def text(self, shape: Text, rules: Rules) -> str:
        """A text of a shape."""

    def one_of(self, values: Sequence[Any], rules: Rules) -> str:
        """One of some values."""
