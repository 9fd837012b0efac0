"""Reads one call in Gemma 4's notation: takes the pieces between its control tokens, gives name and arguments.

Strict: what can be read in one way only is read (white space, a key or text in JSON's quotes, Python's None for null,
which the publisher's template writes), and all else is Unreadable. Nothing is mended: a call that is almost right may
mean something else.
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from doppler_core.text.chat.form import Piece
from doppler_core.text.chat.gemma4_marks import QUOTE
from doppler_core.text.chat.gemma4_values import is_bare
from doppler_core.text.chat.json_values import MOST_BITS, MOST_DEEP

_HEAD = re.compile(r"\s*call:\s*([\w.:/-]{1,128})\s*(?=\{)")
_TOKEN = re.compile(r'\s*(?:([{}\[\],:])|("(?:[^"\\]|\\.)*")|([^\s{}\[\],:"][^{}\[\],:"]*))', re.DOTALL)
_WORDS = {"null": None, "None": None, "true": True, "false": False}
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_DIGITS = 1300  # what a number of so many bits may have, and more

Token = tuple[Literal["sign", "text", "word", "end"], str]


class Unreadable(ValueError):
    """Why a call can't be read."""


def call_name(pieces: Sequence[Piece]) -> str | None:
    """The name of a call that may be cut off; None where it is not there as a whole."""
    head = _head(_merged(pieces))
    return head[1] if head else None


def read_call(pieces: Sequence[Piece]) -> tuple[str, dict[str, Any]]:
    """Name and arguments of a call; Unreadable says what stands where something else was expected."""
    merged = _merged(pieces)
    head = _head(merged)
    if head is None:
        raise Unreadable("expected `call:`, a name and `{`")
    reader = _Reader([head.string[head.end() :], *merged[1:]])
    arguments = reader.value(0)
    reader.expect_end()
    return head[1], arguments


def _head(pieces: Sequence[Piece]) -> re.Match[str] | None:
    return _HEAD.match(pieces[0]) if pieces and isinstance(pieces[0], str) else None


def _merged(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces, texts that follow each other as one."""
    found: list[Piece] = []
    for piece in pieces:
        if found and isinstance(piece, str) and isinstance(found[-1], str):
            found[-1] += piece
        else:
            found.append(piece)
    return found


class _Reader:
    """The values of a call, one token after the other."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._tokens = list(_tokens(pieces))
        self._at = 0

    def value(self, depth: int) -> Any:
        if depth > MOST_DEEP:
            raise Unreadable(f"values more than {MOST_DEEP} deep")
        kind, found = self._next()
        if (kind, found) == ("sign", "{"):
            return self._object(depth)
        if (kind, found) == ("sign", "["):
            return self._list(depth)
        if kind == "text":
            return found
        if kind == "word":
            return _literal(found)
        raise Unreadable(f"expected a value, found {_shown(kind, found)}")

    def expect_end(self) -> None:
        kind, found = self._next()
        if kind != "end":
            raise Unreadable(f"after the arguments: {_shown(kind, found)}")

    def _object(self, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        if self._takes("}"):
            return values
        while True:
            kind, key = self._next()
            if kind != "text" and not (kind == "word" and is_bare(key)):
                raise Unreadable(f"expected a key, found {_shown(kind, key)}")
            if key in values:
                raise Unreadable(f"the key {key!r} twice")
            self._expect(":", f"after the key {key!r}")
            values[key] = self.value(depth + 1)
            if self._ends("}"):
                return values

    def _list(self, depth: int) -> list[Any]:
        values: list[Any] = []
        if self._takes("]"):
            return values
        while True:
            values.append(self.value(depth + 1))
            if self._ends("]"):
                return values

    def _ends(self, sign: str) -> bool:
        """Whether the sign that closes comes next, else a comma has to."""
        if self._takes(sign):
            return True
        self._expect(",", f"or {sign} after a value")
        return False

    def _takes(self, sign: str) -> bool:
        found = self._tokens[self._at] == ("sign", sign)
        self._at += found
        return found

    def _expect(self, sign: str, where: str) -> None:
        kind, found = self._next()
        if (kind, found) != ("sign", sign):
            raise Unreadable(f"expected {sign} {where}, found {_shown(kind, found)}")

    def _next(self) -> Token:
        token = self._tokens[self._at]
        self._at += token[0] != "end"
        return token


def _tokens(pieces: Sequence[Piece]) -> Iterator[Token]:
    at = 0
    while at < len(pieces):
        piece = pieces[at]
        at += 1
        if isinstance(piece, str):
            yield from _text_tokens(piece)
            continue
        if piece != QUOTE:
            raise Unreadable(f"the control token {piece.token} within it")
        inside = pieces[at] if at < len(pieces) else None
        text = inside if isinstance(inside, str) else ""
        at += isinstance(inside, str)
        if at >= len(pieces) or pieces[at] != QUOTE:
            raise Unreadable(f"a text that is not closed: {text[:40]!r}")
        at += 1
        yield "text", text
    yield "end", ""


def _text_tokens(text: str) -> Iterator[Token]:
    at, end = 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            raise Unreadable(f"a quote that is not closed: {text[at : at + 40]!r}")
        at = found.end()
        sign, quoted, word = found.groups()
        if sign:
            yield "sign", sign
        elif word:
            yield "word", word.rstrip()
        else:
            yield "text", _json_text(quoted)


def _json_text(quoted: str) -> str:
    try:
        text: str = json.loads(quoted)
        text.encode()
    except ValueError as error:
        raise Unreadable(f"a text in JSON's quotes that is none: {error}") from None
    return text


def _literal(word: str) -> Any:
    if word in _WORDS:
        return _WORDS[word]
    number = _NUMBER.fullmatch(word)
    if number is None or len(word) > _DIGITS:
        raise Unreadable(f"expected a value, found the word {word[:40]!r}")
    if number[2] or number[3]:
        value = float(word)
        if not math.isfinite(value):
            raise Unreadable(f"a number too large: {word[:40]}")
        return value
    whole = int(word)
    if whole.bit_length() > MOST_BITS:
        raise Unreadable(f"a number too large: {word[:40]}...")
    return whole


def _shown(kind: str, found: str) -> str:
    return "the end" if kind == "end" else f"{found[:40]!r}"
