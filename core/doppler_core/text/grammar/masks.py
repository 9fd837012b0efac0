"""Which tokens a grammar allows next: takes a TokenTable and a Grammar, gives masks that follow a text as it is made."""

from typing import Any

import numpy as np
import numpy.typing as npt

from doppler_core.errors import InputError
from doppler_core.text.grammar.form import Grammar
from doppler_core.text.grammar.library_check import outgrown
from doppler_core.text.grammar.library_text import library_text
from doppler_core.text.grammar.table import TokenTable, in_words


class Constraint:
    """What a grammar allows next in one text. It is used by one thread at a time."""

    def __init__(self, matcher: Any, vocabulary: int) -> None:
        """matcher: a llguidance.LLMatcher that has seen nothing yet. vocabulary: how many tokens it tells apart."""
        self._matcher = matcher
        self._words = -(-vocabulary // 32)

    def words(self) -> npt.NDArray[np.uint32]:
        """The tokens that may come next: bit i % 32 of word i // 32 for token i, [ceil(vocabulary / 32)]."""
        words = np.zeros(self._words, np.uint32)
        self._matcher.unsafe_compute_mask_ptr(words.ctypes.data, words.nbytes)
        self._check()
        return words

    def accept(self, token: int) -> None:
        """The token that came. InputError: the grammar does not allow it."""
        if not self._matcher.consume_token(token):
            error = self._matcher.get_error()
            why = outgrown(error) or f"token {token} is not allowed here: {in_words(error)}"
            raise InputError(f"grammar: {why}")

    def forced(self) -> list[int]:
        """The tokens that must come next, perhaps none. They are not accepted by that: whoever writes them does it."""
        tokens: list[int] = self._matcher.compute_ff_tokens()
        self._check()
        return tokens

    @property
    def stopped(self) -> bool:
        """Whether the text is whole and nothing but an end token may come, or one has come."""
        stopped: bool = self._matcher.is_stopped()
        return stopped

    def _check(self) -> None:
        """A matcher that has failed says so nowhere else: it allows the end tokens, as if the text were whole."""
        if self._matcher.is_error():
            raise InputError(f"grammar: {in_words(self._matcher.get_error())}")


def constraint(table: TokenTable, grammar: Grammar) -> Constraint:
    """A fresh Constraint. InputError: the grammar is malformed, too large, or can't be held by tokens."""
    return Constraint(table.matcher(library_text(grammar)), table.vocabulary)
