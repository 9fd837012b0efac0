"""Text to ids and back, with the checkpoint's own tokenizer file. It knows prompts only as text.

Text from outside never becomes a control token: "<eos>" in a document is six characters, not the end.
"""

import contextlib
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from tokenizers import Tokenizer as Backend

from doppler_core.errors import FileFormatError, InputError
from doppler_core.text.token_count import longest_token

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_LONG = 4096  # characters: encoding so many takes milliseconds
_BEFORE = "x"  # any token: what a decoder does to the first token of a text it must not do to a later one


class Tokenizer:
    """A loaded tokenizer. It is never mutated after loading, so any number of threads may use it."""

    def __init__(self, path: Path, vocabulary: int) -> None:
        """Load `path` (tokenizer.json) for a model whose embedding table has `vocabulary` rows."""
        self.path = path
        self.vocabulary = vocabulary
        with self._blamed("expected a tokenizer.json of the tokenizers library"):
            self._backend = Backend.from_file(str(path))
            self._backend.no_truncation()
            self._backend.no_padding()
            self._backend.encode_special_tokens = True
            if getattr(self._backend.model, "dropout", None):
                self._backend.model.dropout = None  # a means of training: the same text would change its ids
            self._control = {
                number for number, token in self._backend.get_added_tokens_decoder().items() if token.special
            }
        self._pieces: dict[int, bytes] = {}

    @property
    def added(self) -> int:
        """How many tokens `encode` puts around a text."""
        return self._backend.num_special_tokens_to_add(False)

    @property
    def control(self) -> frozenset[str]:
        """The texts of the control tokens, which no encoded text holds."""
        return frozenset(str(self._backend.id_to_token(number)) for number in self._control)

    def encode(self, text: str, bare: bool = False) -> list[int]:
        """Ids of `text`, with the begin and end tokens that the checkpoint's post-processor adds; bare: without."""
        with self._blamed("it can't encode a text"):
            if len(text) > _LONG:  # in a batch, the library lets other threads run meanwhile
                (encoded,) = self._backend.encode_batch_fast([text], add_special_tokens=not bare)
            else:
                encoded = self._backend.encode(text, add_special_tokens=not bare)
        return self._checked(encoded, text)

    def least_tokens(self, characters: int) -> int:
        """How many tokens a text of that length has at least, whatever it says; 0 where this tokenizer does not tell."""
        return -(-characters // self._longest_token) if self._longest_token else 0

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of several texts, each as `encode` gives them."""
        with self._blamed("it can't encode a text"):
            encoded = self._backend.encode_batch_fast(list(texts))
        return [self._checked(one, text) for one, text in zip(encoded, texts, strict=True)]

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str:
        """Text of `ids`."""
        return self._backend.decode(list(ids), skip_special_tokens=skip_special)

    def piece(self, number: int) -> bytes:
        """What a token adds to a text that has begun, in UTF-8: part of a character, perhaps; b"" for control tokens."""
        found = self._pieces.get(number)
        if found is None:
            with self._blamed(f"it can't decode id {number}"):
                found = self._pieces[number] = self._piece(number)
        return found

    def pieces(self) -> Iterator[bytes]:
        """The piece of each id that the embedding table has a row for, in order. None of them is kept."""
        for begin in range(0, self.vocabulary, 4096):
            with self._blamed("it can't decode its own tokens"):
                some = [self._piece(number) for number in range(begin, min(begin + 4096, self.vocabulary))]
            yield from some

    def control_name(self, number: int) -> str | None:
        """The text of a control token by its id; None for any other token."""
        return str(self._backend.id_to_token(number)) if number in self._control else None

    @cached_property
    def _longest_token(self) -> int | None:
        with self._blamed("it can't tell its own tokens"):
            return longest_token(self._backend, self.vocabulary)

    def _piece(self, number: int) -> bytes:
        token: str | None = None if number in self._control else self._backend.id_to_token(number)
        if token is None:
            return b""
        decoder = self._backend.decoder
        if decoder is None:
            return token.encode()
        if (byte := _BYTE.fullmatch(token)) and decoder.decode([token]) != token:
            return bytes.fromhex(byte[1])
        text: str = decoder.decode([_BEFORE, token])
        return text.removeprefix(decoder.decode([_BEFORE])).encode()

    def token_id(self, token: str) -> int | None:
        """The id of a token by its text, control tokens included."""
        return self._backend.token_to_id(token)

    @contextlib.contextmanager
    def _blamed(self, what: str) -> Iterator[None]:
        """Turn every fault of the library into a FileFormatError: it raises bare Exception, and its panics are none."""
        try:
            yield
        except (KeyboardInterrupt, SystemExit, MemoryError):
            raise
        except BaseException as error:
            raise FileFormatError(
                f"{self.path}: {what} ({str(error)[:500]}); take the tokenizer.json that the model's publisher ships"
            ) from error

    def _checked(self, encoded: object, text: str) -> list[int]:
        ids: list[int] = encoded.ids  # type: ignore[attr-defined]
        if ids and max(ids) >= self.vocabulary:
            raise InputError(
                f"the tokenizer gives id {max(ids)} for {text[:40]!r}, but the embedding table has "
                f"{self.vocabulary} rows: tokenizer and weights are not of one model"
            )
        return ids


def well_formed(text: str) -> str:
    """`text` with surrogate pairs joined and unpaired surrogates replaced by U+FFFD, so that it has a UTF-8 form."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
