"""Gemma 4's own notation of values, as its calls have it.

    null true 42 -2.5e3 <|"|>text<|"|> [a,b] {key:value,key:value}

A text is what stands between two quote tokens, with nothing escaped. Keys are in the order of a prompt's renderer.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from doppler_core.errors import InputError
from doppler_core.text.chat.form import Control, Piece
from doppler_core.text.chat.gemma4_marks import QUOTE
from doppler_core.text.chat.gemma4_values import in_order, key_pieces, value_pieces
from doppler_core.text.grammar.lark_text import lark_regex, lark_string
from doppler_core.text.grammar.notation import Rules
from doppler_core.text.grammar.shape import Text

_QUOTE = QUOTE.token
_MOST_QUOTING = 500  # a parser stops at 2,000 places that it may be in, and has others


class CallNotation:
    """A Notation."""

    # Keys that nobody has to quote; any other stands in quotes.
    shared = rf"""
TEXT: /(?s:.+)/
KEY: /[\p{{L}}\p{{N}}_]([\p{{L}}\p{{N}}_ .-]{{0,62}}[\p{{L}}\p{{N}}_])?/
anytext: {_QUOTE} TEXT? {_QUOTE}
anykey: KEY | {_QUOTE} TEXT {_QUOTE}
"""

    def in_order(self, keys: Mapping[str, Any]) -> Sequence[tuple[str, Any]]:
        return in_order(keys)

    def key(self, key: str) -> str:
        return literal([*key_pieces(key), ":"])

    def other_key(self, taken: Sequence[str], rules: Rules) -> str:
        if not taken:
            return "anykey"
        not_taken = f"~{lark_regex('|'.join(map(re.escape, taken)))}"
        bare, text = (rules.terminal(f"{one} & {not_taken}") for one in ("KEY", "TEXT"))
        return f"({bare} | {_QUOTE} {text} {_QUOTE})"

    def text(self, shape: Text, rules: Rules) -> str:
        if shape.most == 0 and not shape.patterns:
            return f"{_QUOTE} {_QUOTE}"
        if not shape.patterns and shape.most is None and shape.least < 2:
            return f"{_QUOTE} TEXT{'' if shape.least else '?'} {_QUOTE}"
        length = f"(?s:.{{{shape.least},{'' if shape.most is None else shape.most}}})"
        terminal = rules.terminal(" & ".join(map(lark_regex, [*shape.patterns, length])))
        return f"{_QUOTE} {terminal} {_QUOTE}"

    def one_of(self, values: Sequence[Any], rules: Rules) -> str:
        # Terminals, as far as there are no control tokens in between: a parser has no room for thousands of alternatives.
        texts = [lark_string(value) for value in values if isinstance(value, str) and value]
        others = [list(value_pieces(value)) for value in values if not isinstance(value, str) or not value]
        bare = [literal(pieces) for pieces in others if all(isinstance(piece, str) for piece in pieces)]
        quoting = [
            literal(pieces) for pieces in others if not all(isinstance(piece, str) for piece in pieces)
        ]
        if len(quoting) > _MOST_QUOTING:
            raise InputError(
                f"grammar: {len(quoting)} lists or objects that hold texts are the values of an enum or const, and "
                f"{_MOST_QUOTING} is the most that a tool's grammar can hold: number them, and ask for the number"
            )
        terminals = [rules.terminal(" | ".join(bare))] if bare else []
        terminals += [f"{_QUOTE} {rules.terminal(' | '.join(texts))} {_QUOTE}"] if texts else []
        return " | ".join([*quoting, *terminals])


def literal(pieces: Iterable[Piece]) -> str:
    """Pieces of a prompt, as Lark writes them."""
    parts: list[str] = []
    for is_text, run in groupby(pieces, lambda piece: isinstance(piece, str)):
        if is_text:
            text = "".join(map(str, run))
            parts += [lark_string(text)] if text else []
        else:
            parts += [piece.token for piece in run if isinstance(piece, Control)]
    return " ".join(parts)
