"""Ids to text, one at a time, for text that is shown while it is made: whole characters only, none lost."""

import codecs

from doppler_core.text.tokenizer import Tokenizer


class Detokenizer:
    """The text that continues a prompt.

    A space before its first word stays, as the text goes on where the prompt ended. Bytes that are no UTF-8 become
    U+FFFD as soon as no further byte can mend them, so that a character that is cut off by the end becomes one there.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, number: int) -> str:
        """The characters that the token completes, perhaps none. A control token has none."""
        return self._decoder.decode(self._tokenizer.piece(number))

    def finish(self) -> str:
        """U+FFFD where the text ends within a character, else nothing."""
        return self._decoder.decode(b"", final=True)
