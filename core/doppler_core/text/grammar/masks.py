"""Which tokens a grammar allows next: takes a TokenTable and a Grammar, gives masks that follow a text as it is made."""

from typing import Any

import numpy as np
import numpy.typing as npt

from doppler_core.text.grammar.form import Grammar
from doppler_core.text.grammar.table import TokenTable


class Constraint:
    """What a grammar allows next in one text. It is used by one thread at a time."""

    def __init__(self, matcher: Any, table: TokenTable) -> None:
        self._matcher = matcher
        self._table = table

    def words(self) -> npt.NDArray[np.uint32]:
        """The tokens that may come next: bit i % 32 of word i // 32 for token i, [ceil(vocabulary / 32)]."""
        raise NotImplementedError

    def accept(self, token: int) -> None:
        """The token that came. InputError: the grammar does not allow it."""
        raise NotImplementedError

    def forced(self) -> list[int]:
        """The tokens that must come next, perhaps none. They are not accepted by that: the caller does it."""
        raise NotImplementedError

    @property
    def stopped(self) -> bool:
        """Whether the text is whole and nothing but an end token may come."""
        raise NotImplementedError


def constraint(table: TokenTable, grammar: Grammar) -> Constraint:
    """A fresh Constraint. InputError: the grammar is malformed or too large; the message says where."""
    raise NotImplementedError
