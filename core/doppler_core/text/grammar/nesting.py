"""How deep a grammar goes: takes one, refuses what llguidance has no stack for.

The library follows references by recursion, each once, and a stack that overflows ends the process. That was seen from
about 1,850 levels on, on a stack of 8 MiB; other systems give a thread less.
"""

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from doppler_core.errors import InputError
from doppler_core.text.grammar.shape import Either, List, Named, Record, Shape, Shapes

_MOST = 250
# What can hold a name that is none: texts, expressions, control tokens, comments.
_OPAQUE = re.compile(r'"(?:[^"\\\n]|\\.)*"|/(?:[^/\\\n]|\\.)*/|<[^>\s]*>|//[^\n]*|#[^\n]*')
_RULE = re.compile(r"^\s*[?!]*([A-Za-z_]\w*)[^:\n]*:", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_]\w*")

Node = TypeVar("Node")


def check_rules(lark: str) -> None:
    """InputError where the rules of a Lark text refer to each other in too long a row."""
    pieces = _RULE.split(_OPAQUE.sub(" ", lark))
    rules = {name: _NAME.findall(body) for name, body in zip(pieces[1::2], pieces[2::2], strict=True)}
    if _depth("start", lambda name: [one for one in rules.get(name, ()) if one in rules], str) > _MOST:
        raise InputError(f"grammar: rules within rules, more than {_MOST} deep: write it flatter")


def check_shapes(shapes: Shapes) -> None:
    """InputError where shapes stand in each other too deep, definitions included."""

    def within(shape: Shape) -> Sequence[Shape]:
        match shape:
            case Named(name):
                return [shapes.named[name]]
            case Either(several):
                return several
            case List(first, rest):
                return [*first, *([] if rest is None else [rest])]
            case Record(keys, _, rest):
                return [*(value for _, value in keys), *([] if rest is None else [rest])]
        return ()

    if _depth(shapes.root, within, lambda shape: shape.name if isinstance(shape, Named) else None) > _MOST:
        raise InputError(
            f"schema: values within values, more than {_MOST} deep, definitions included: write it flatter"
        )


def _depth(root: Node, within: Callable[[Node], Sequence[Node]], name: Callable[[Node], str | None]) -> int:
    """The most that a walk that enters what has a name once, in order, ever stands in."""
    deepest, entered = 0, set[str]()
    waiting = [(root, 1)]
    while waiting:
        node, depth = waiting.pop()
        called = name(node)
        if called is not None and called in entered:
            continue
        if called is not None:
            entered.add(called)
        deepest = max(deepest, depth)
        waiting += [(one, depth + 1) for one in reversed(within(node))]
    return deepest
