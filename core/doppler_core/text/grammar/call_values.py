"""Shapes as rules for values in Gemma 4's own notation: takes shapes, gives lines of Lark.

    null true 42 -2.5e3 <|"|>text<|"|> [a,b] {key:value,key:value}

Keys stand in the order in which a chat's renderer writes them; one that may be missing is skipped with its comma.
"""

import json
import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from doppler_core.text.chat.form import Control, Piece
from doppler_core.text.chat.gemma4_marks import QUOTE
from doppler_core.text.chat.gemma4_values import in_order, key_pieces, value_pieces
from doppler_core.text.grammar.json_form import number_form
from doppler_core.text.grammar.pattern import lark_regex
from doppler_core.text.grammar.shape import (
    Anything,
    Either,
    List,
    Named,
    Number,
    OneOf,
    Record,
    Shape,
    Shapes,
    Text,
)

_QUOTE = QUOTE.token
# Numbers that stay finite, and that every JSON reader takes; keys of nobody's choice that stand bare.
_SHARED = rf"""
WHOLE: /-?(0|[1-9][0-9]{{0,17}})/
NUMBER: /-?(0|[1-9][0-9]{{0,17}})(\.[0-9]{{1,17}})?([eE][+-]?[0-9]{{1,2}})?/
TEXT: /(?s:.+)/
KEY: /[\p{{L}}\p{{N}}_]([\p{{L}}\p{{N}}_ .-]{{0,62}}[\p{{L}}\p{{N}}_])?/
anything: {_QUOTE} TEXT? {_QUOTE} | NUMBER | "true" | "false" | "null" | anylist | anyrecord
anylist: "[" (anything ("," anything)*)? "]"
anyrecord: "{{" (anypair ("," anypair)*)? "}}"
anypair: (KEY | {_QUOTE} TEXT {_QUOTE}) ":" anything
"""


def literal(pieces: Iterable[Piece]) -> str:
    """Pieces of a prompt as Lark writes them."""
    parts: list[str] = []
    for is_text, run in groupby(pieces, lambda piece: isinstance(piece, str)):
        if is_text:
            text = "".join(map(str, run))
            parts += [json.dumps(text, ensure_ascii=False)] if text else []
        else:
            parts += [piece.token for piece in run if isinstance(piece, Control)]
    return " ".join(parts)


class ValueRules:
    """Rules, collected: of any number of schemas, no two under one name."""

    def __init__(self) -> None:
        self._lines = [_SHARED.strip()]
        self._count = 0

    def of(self, shapes: Shapes) -> str:
        """What a value of these shapes is called in a rule."""
        self._count += 1
        names = _Names(self, f"s{self._count}_")
        for name, shape in shapes.named.items():
            self.line(names.called(name), names.value(shape))
        return names.value(shapes.root)

    def rule(self, body: str, terminal: bool = False) -> str:
        """The name of a new rule."""
        self._count += 1
        return self.line(f"{'T' if terminal else 'v'}{self._count}", body)

    def line(self, name: str, body: str) -> str:
        """A rule by its name, which it gives back."""
        self._lines.append(f"{name}: {body}")
        return name

    def text(self) -> str:
        """All rules."""
        return "\n".join(self._lines)


class _Names:
    """The rules of one schema, whose definitions have names of their own."""

    def __init__(self, rules: ValueRules, prefix: str) -> None:
        self._rules = rules
        self._prefix = prefix

    def called(self, name: str) -> str:
        return self._prefix + name

    def value(self, shape: Shape) -> str:
        """What stands in a rule for a value of this shape."""
        match shape:
            case Anything():
                return "anything"
            case Named(name):
                return self.called(name)
            case Either(shapes):
                return self._rules.rule(" | ".join(self.value(one) for one in shapes))
            case OneOf(values):
                return self._one_of(values)
            case Number(whole, limits):
                plain = "WHOLE" if whole else "NUMBER"
                return self._rules.rule(f"%json {json.dumps(number_form(shape))}") if limits else plain
            case Text():
                return self._text(shape)
            case List():
                return self._list(shape)
            case Record():
                return self._record(shape)

    def _one_of(self, values: Sequence[Any]) -> str:
        texts = [value for value in values if isinstance(value, str) and value]
        found = [literal(value_pieces(value)) for value in values if value not in texts]
        if texts:
            terminal = self._rules.rule(" | ".join(literal([text]) for text in texts), terminal=True)
            found.append(f"{_QUOTE} {terminal} {_QUOTE}")
        return self._rules.rule(" | ".join(found))

    def _text(self, shape: Text) -> str:
        if shape.most == 0:
            return self._rules.rule(f"{_QUOTE} {_QUOTE}")
        if not shape.patterns and shape.most is None and shape.least < 2:
            return self._rules.rule(f"{_QUOTE} TEXT{'' if shape.least else '?'} {_QUOTE}")
        patterns = [*shape.patterns]
        if shape.least or shape.most is not None or not patterns:
            patterns.append(f"(?s:.{{{shape.least},{'' if shape.most is None else shape.most}}})")
        terminal = self._rules.rule(" & ".join(map(lark_regex, patterns)), terminal=True)
        return self._rules.rule(f"{_QUOTE} {terminal} {_QUOTE}")

    def _list(self, shape: List) -> str:
        return self._rules.rule(f'"[" {self._items(shape, 0)} "]"')

    def _items(self, shape: List, at: int) -> str:
        """The items of a list from a place on."""
        comma = '"," ' if at else ""
        if at < len(shape.first):
            items = f"{comma}{self.value(shape.first[at])} {self._items(shape, at + 1)}"
            return items if at < shape.least else f"({items})?"
        least, most = max(0, shape.least - at), None if shape.most is None else shape.most - at
        if shape.rest is None or most == 0:
            return ""
        item = self.value(shape.rest)
        return _times(f'"," {item}', least, most) if at else _separated(item, least, most)

    def _record(self, shape: Record) -> str:
        rest = "" if shape.rest is None else self._pair([key for key, _ in shape.keys], shape.rest)
        pairs = [
            (f"{literal([*key_pieces(key), ':'])} {self.value(one)}", key in shape.required)
            for key, one in in_order(dict(shape.keys))
        ]
        after = self._after(pairs, f'("," {rest})*' if rest else "")
        needed = next((at for at, (_, is_required) in enumerate(pairs) if is_required), None)
        firsts = [
            f"{pair} {after[at + 1]}" for at, (pair, _) in enumerate(pairs) if needed is None or at <= needed
        ]
        if needed is None and rest:
            firsts.append(_separated(rest, shape.least, shape.most))
        may_be_missing = "?" if pairs and needed is None else ""
        inside = f"({' | '.join(firsts)}){may_be_missing}" if firsts else ""
        return self._rules.rule(f'"{{" {inside} "}}"')

    def _after(self, pairs: Sequence[tuple[str, bool]], end: str) -> list[str]:
        """What stands after a key that is written, from each of the pairs on, and after the last."""
        found = [end]
        for at, (pair, is_required) in reversed(list(enumerate(pairs))):
            more = f'"," {pair} {found[-1]}' if is_required else f'("," {pair})? {found[-1]}'
            # A rule at every 16th: many keys make rules that are neither deep nor long.
            found.append(more if at % 16 else self._rules.rule(more))
        return found[::-1]

    def _pair(self, taken: Sequence[str], value: Shape) -> str:
        """A key of nobody's choice, none of those that are taken, and its value."""
        bare, quoted = "KEY", "TEXT"
        if taken:
            others = lark_regex("|".join(map(re.escape, taken)))
            bare, quoted = (self._rules.rule(f"{one} & ~{others}", terminal=True) for one in (bare, quoted))
        return self._rules.rule(f'({bare} | {_QUOTE} {quoted} {_QUOTE}) ":" {self.value(value)}')


def _separated(item: str, least: int, most: int | None) -> str:
    """So many items, commas between them."""
    if most == 0:
        return ""
    more = _times(f'"," {item}', max(0, least - 1), None if most is None else most - 1)
    return f"{item} {more}" if least else f"({item} {more})?"


def _times(item: str, least: int, most: int | None) -> str:
    """An item so many times."""
    if most == 0:
        return ""
    if most is None:
        return f"({item})*" if least == 0 else f"({item}){{{least},}}"
    return f"({item}){{{least},{most}}}"
