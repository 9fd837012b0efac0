"""Shapes that something can have: takes shapes that name each other, gives them without what no value has."""

from collections.abc import Set as AbstractSet
from itertools import takewhile

from doppler_core.text.grammar.shape import Either, List, Named, Record, Shape, Shapes, either


def possible(shapes: Shapes) -> Shapes | None:
    """The same values, said by shapes each of which some value of finite depth has; None where there are no values.

    What may be missing and can't be there is left out: a property, a place of a list and those behind it, an alternative.
    """
    known: set[str] = set()
    while more := {
        name for name, one in shapes.named.items() if name not in known and _has_a_value(one, known)
    }:
        known |= more
    if not _has_a_value(shapes.root, known):
        return None
    named = {name: _reduced(shape, known) for name, shape in shapes.named.items() if name in known}
    return Shapes(_reduced(shapes.root, known), named)


def _has_a_value(shape: Shape, known: AbstractSet[str]) -> bool:
    """known: names of shapes that have one."""
    match shape:
        case Named(name):
            return name in known
        case Either(shapes):
            return any(_has_a_value(one, known) for one in shapes)
        case List(first, rest, least):
            behind = max(0, least - len(first))
            return not (behind and rest is None) and all(
                _has_a_value(one, known) for one in (*first[:least], *([rest] if behind and rest else []))
            )
        case Record(keys, required, rest, least):
            needed = [one for key, one in keys if key in required]
            return all(_has_a_value(one, known) for one in [*needed, *([rest] if least and rest else [])])
    return True


def _reduced(shape: Shape, known: AbstractSet[str]) -> Shape:
    """A shape that has a value, without what has none."""
    match shape:
        case Either(shapes):
            return either([_reduced(one, known) for one in shapes if _has_a_value(one, known)])
        case List(first, rest, least, most):
            able = tuple(takewhile(lambda one: _has_a_value(one, known), first))
            left = _rest(rest, known) if len(able) == len(first) else None
            return List(tuple(_reduced(one, known) for one in able), left, least, most)
        case Record(keys, required, rest, least, most):
            left = _rest(rest, known)
            never = tuple(key for key, one in keys if not _has_a_value(one, known)) if left else ()
            pairs = tuple((key, _reduced(one, known)) for key, one in keys if _has_a_value(one, known))
            return Record(pairs, required, left, least, most, never)
    return shape


def _rest(shape: Shape | None, known: AbstractSet[str]) -> Shape | None:
    """What further items or keys are; None: there are none."""
    return None if shape is None or not _has_a_value(shape, known) else _reduced(shape, known)
