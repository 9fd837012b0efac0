"""JSON values in Gemma 4's own notation: takes values, gives pieces.

    null true 42 -2.5e3 <|"|>text<|"|> [a,b] {key:value,key:value}

Between two quote tokens stands text as it is: as the quote is a control token, nothing in a text can end it, and nothing
has to be escaped. Keys are sorted as the publisher's template sorts them, and bare unless that could be misread. The
template writes Python's None for null; `null` is what its parser reads.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from doppler_core.text.chat.form import Piece
from doppler_core.text.chat.gemma4_marks import QUOTE

# Not empty, no sign of the notation or line break, no white space around.
_BARE = re.compile(r'(?!\s)[^{}\[\],:"\r\n]+(?<!\s)')


def value_pieces(value: Any, *, quote_keys: bool = False) -> list[Piece]:
    """The pieces of a JSON value, keys in quotes where asked."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Mapping):
        items = [
            [*key_pieces(key, quote_keys), ":", *value_pieces(one, quote_keys=quote_keys)]
            for key, one in in_order(value)
        ]
        return braced(items)
    if isinstance(value, list | tuple):
        return ["[", *separated(value_pieces(one, quote_keys=quote_keys) for one in value), "]"]
    return [json.dumps(value, allow_nan=False)]


def key_pieces(key: str, quote: bool = False) -> list[Piece]:
    """The pieces of a key."""
    return quoted(key) if quote or not is_bare(key) else [key]


def is_bare(key: str) -> bool:
    """Whether a key can stand without quotes."""
    return _BARE.fullmatch(key) is not None


def in_order(mapping: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The items of an object, in the order in which they are written: by their keys, in lower case."""
    return sorted(mapping.items(), key=lambda item: item[0].lower())


def quoted(text: str) -> list[Piece]:
    """A text between quote tokens."""
    return [QUOTE, text, QUOTE]


def braced(items: Iterable[Sequence[Piece]]) -> list[Piece]:
    """Items in braces, commas between them."""
    return ["{", *separated(items), "}"]


def separated(items: Iterable[Sequence[Piece]]) -> list[Piece]:
    """Items with commas between them."""
    pieces: list[Piece] = []
    for item in items:
        pieces += [",", *item] if pieces else item
    return pieces
