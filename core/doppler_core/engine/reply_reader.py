"""A reply's tokens to its parts: ids in, one after the other; text, thoughts and calls out. It knows no ends.

Without a parser all that the tokens spell is text.
"""

from collections.abc import Mapping, Sequence

from doppler_core.text.chat import ReplyParser, ReplyPart, Text
from doppler_core.text.detokenizer import Detokenizer
from doppler_core.text.tokenizer import Tokenizer


class ReplyReader:
    """marks: the texts of tokens that the parser has to see as control tokens, whatever the tokenizer thinks of them."""

    def __init__(
        self, tokenizer: Tokenizer, parser: ReplyParser | None = None, marks: Mapping[int, str] | None = None
    ) -> None:
        self._tokenizer = tokenizer
        self._detokenizer = Detokenizer(tokenizer)
        self._parser = parser
        self._marks = marks or {}

    def push(self, token: int) -> Sequence[ReplyPart]:
        """The parts that the token makes sure, perhaps none."""
        if self._parser is None:
            return _text(self._detokenizer.push(token))
        name = self._marks.get(token) or self._tokenizer.control_name(token)
        if name is None:
            return self._read(self._detokenizer.push(token))
        return [*self._read(self._detokenizer.finish()), *self._parser.control(name)]

    def finish(self, cut: bool) -> Sequence[ReplyPart]:
        """What was held back. cut: the reply was not ended by the model."""
        rest = self._detokenizer.finish()
        if self._parser is None:
            return _text(rest)
        return [*self._read(rest), *self._parser.finish(cut)]

    def _read(self, text: str) -> Sequence[ReplyPart]:
        return self._parser.text(text) if text and self._parser is not None else ()


def _text(text: str) -> Sequence[ReplyPart]:
    return (Text(text),) if text else ()
