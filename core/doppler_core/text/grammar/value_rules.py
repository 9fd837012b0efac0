"""Shapes as rules for values: takes shapes and a notation, gives lines of Lark.

Nothing stands between the parts of a value. The keys of an object stand in the order that the notation has for them; one
that may be missing is skipped with its comma.
"""

import json
from collections.abc import Sequence

from doppler_core.text.grammar.lark_text import lark_regex
from doppler_core.text.grammar.notation import Notation
from doppler_core.text.grammar.number_limits import limit_patterns, number_schema
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

# Numbers have an end, stay finite, and are read by everybody: without a limit, a model may write digits for ever.
_SHARED = r"""
WHOLE: /-?(0|[1-9][0-9]{0,17})/
DECIMAL: /-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?/
NUMBER: /-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?([eE][+-]?[0-9]{1,2})?/
anything: anytext | NUMBER | "true" | "false" | "null" | anylist | anyrecord
anylist: "[" (anything ("," anything)*)? "]"
anyrecord: "{" (anypair ("," anypair)*)? "}"
anypair: anykey ":" anything
"""


class ValueRules:
    """Rules, collected, of any number of schemas."""

    def __init__(self, notation: Notation) -> None:
        self.notation = notation
        self._lines: list[str] = []
        self._names: dict[str, str] = {}
        self._schemas = 0

    def of(self, shapes: Shapes) -> str:
        """What a value of these shapes is called in a rule."""
        self._schemas += 1
        names = _Names(self, f"s{self._schemas}_")
        for name, shape in shapes.named.items():
            self._lines.append(f"{names.called(name)}: {names.value(shape)}")
        return names.value(shapes.root)

    def rule(self, body: str) -> str:
        """The name of a rule with this body. Equal bodies have one name."""
        return self._named("v", body)

    def terminal(self, body: str) -> str:
        """The name of a terminal with this body, in which expressions may be joined by & and ~."""
        return self._named("V", body)

    def text(self) -> str:
        """All rules."""
        return "\n".join([_SHARED.strip(), self.notation.shared.strip(), *self._lines])

    def _named(self, letter: str, body: str) -> str:
        name = self._names.get(body)
        if name is None:
            name = self._names[body] = f"{letter}{len(self._names)}"
            self._lines.append(f"{name}: {body}")
        return name


class _Names:
    """The rules of one schema, whose definitions have names of their own."""

    def __init__(self, rules: ValueRules, prefix: str) -> None:
        self._rules = rules
        self._notation = rules.notation
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
                return self._rules.rule(self._notation.one_of(values, self._rules))
            case Number(whole, limits):
                return self._number(whole, dict(limits))
            case Text():
                return self._rules.rule(self._notation.text(shape, self._rules))
            case List():
                return self._rules.rule(f'"[" {self._items(shape)} "]"')
            case Record():
                return self._rules.rule(f'"{{" {self._inside(shape)} "}}"')

    def _number(self, whole: bool, limits: dict[str, float]) -> str:
        if not limits:
            return "WHOLE" if whole else "NUMBER"
        if "multipleOf" in limits:
            return self._rules.rule(f"%json {json.dumps(number_schema(whole, limits))}")
        shape = "WHOLE" if whole else "DECIMAL"
        return self._rules.terminal(" & ".join([shape, *map(lark_regex, limit_patterns(limits.items()))]))

    def _items(self, shape: List) -> str:
        """The items of a list."""
        found = self._further_items(shape, len(shape.first))
        for at, one in reversed(list(enumerate(shape.first))):
            items = f"{self.value(one)} {found}"
            items = f'"," {items}' if at else items
            found = items if at < shape.least else f"({items})?"
            # A rule at every 16th: many places make rules that are neither deep nor long.
            found = self._rules.rule(found) if at and at % 16 == 0 else found
        return found

    def _further_items(self, shape: List, at: int) -> str:
        """Those behind the first `at`, which are of places of their own."""
        least, most = max(0, shape.least - at), None if shape.most is None else shape.most - at
        if shape.rest is None or most == 0:
            return ""
        item = self.value(shape.rest)
        return _times(f'"," {item}', least, most) if at else _separated(item, least, most)

    def _inside(self, shape: Record) -> str:
        """What stands between the braces of an object."""
        pairs = [
            (f"{self._notation.key(key)} {self.value(one)}", key in shape.required)
            for key, one in self._notation.in_order(dict(shape.keys))
        ]
        taken = [*(key for key, _ in shape.keys), *shape.never]
        rest = "" if shape.rest is None else self._other(taken, shape.rest)
        after = self._after(pairs, f'("," {rest})*' if rest else "")
        needed = next((at for at, (_, is_required) in enumerate(pairs) if is_required), None)
        first = pairs if needed is None else pairs[: needed + 1]
        begins = [f"{pair} {after[at + 1]}" for at, (pair, _) in enumerate(first)]
        if needed is None and rest:
            begins.append(_separated(rest, shape.least, shape.most))
        if not pairs:
            return "".join(begins)
        return f"({' | '.join(begins)}){'?' if needed is None else ''}"

    def _after(self, pairs: Sequence[tuple[str, bool]], end: str) -> list[str]:
        """What stands after a key that is written, from each of the pairs on, and after the last."""
        found = [end]
        for at, (pair, is_required) in reversed(list(enumerate(pairs))):
            more = f'"," {pair} {found[-1]}' if is_required else f'("," {pair})? {found[-1]}'
            # A rule at every 16th: many keys make rules that are neither deep nor long.
            found.append(more if at % 16 else self._rules.rule(more))
        return found[::-1]

    def _other(self, taken: Sequence[str], value: Shape) -> str:
        """A key of nobody's choice and its value."""
        return self._rules.rule(f'{self._notation.other_key(taken, self._rules)} ":" {self.value(value)}')


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
