"""The tokens of a tokenizer as masks need them: takes a Tokenizer and its end ids, gives a table made once.

It knows no grammar.
"""

from collections.abc import Collection

from doppler_core.text.tokenizer import Tokenizer


class TokenTable:
    """The table of a tokenizer. Making it takes seconds for a large vocabulary, and happens on a thread of its own."""

    def __init__(self, tokenizer: Tokenizer, ends: Collection[int]) -> None:
        """ends: the tokens that end a text; a mask allows them where the grammar's text may end, and nowhere else."""
        self.tokenizer = tokenizer
        self.vocabulary = tokenizer.vocabulary
        self.ends = tuple(ends)

    def start(self) -> None:
        """Begin to make the table, unless that has begun. Returns at once."""
