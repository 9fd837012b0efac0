"""What a JSON schema says of a value, in few words: plain data that a grammar is written from.

It knows neither the keys of JSON Schema nor how values are written.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Anything:
    """Any JSON value."""


@dataclass(frozen=True)
class OneOf:
    """One of these values: an enum, true or false, null."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class Text:
    """A text of least to most characters (None: no limit) that matches every one of `patterns` as a whole."""

    least: int = 0
    most: int | None = None
    patterns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Number:
    """A number, whole or not. limits: minimum, exclusiveMaximum, multipleOf and their like, by JSON Schema's names."""

    whole: bool
    limits: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class List:
    """`first` by their places, then any number of `rest` (None: none), in all least to most (None: no limit)."""

    first: tuple["Shape", ...] = ()
    rest: "Shape | None" = None
    least: int = 0
    most: int | None = None


@dataclass(frozen=True)
class Record:
    """An object with these keys, those in `required` always.

    rest: values of other keys, which are none of `never`; None: there are none. least, most: how many keys, where it has
    no keys of its own.
    """

    keys: tuple[tuple[str, "Shape"], ...] = ()
    required: frozenset[str] = frozenset()
    rest: "Shape | None" = None
    least: int = 0
    most: int | None = None
    never: tuple[str, ...] = ()


@dataclass(frozen=True)
class Either:
    """Any of several shapes; of none: no value at all."""

    shapes: tuple["Shape", ...]


@dataclass(frozen=True)
class Named:
    """The shape of that name."""

    name: str


Shape = Anything | OneOf | Text | Number | List | Record | Either | Named
NOTHING = Either(())
NULL = OneOf((None,))
TRUTH = OneOf((True, False))


@dataclass(frozen=True)
class Shapes:
    """A shape and those that it and they name."""

    root: Shape
    named: Mapping[str, Shape]


def either(shapes: list[Shape]) -> Shape:
    """Any of these, an Either within taken apart, and all values together; the one shape itself where there is but one."""
    flat: dict[str, Shape] = {}
    values: dict[str, Any] = {}
    for shape in shapes:
        for one in shape.shapes if isinstance(shape, Either) else (shape,):
            if isinstance(one, OneOf):
                values |= {repr(value): value for value in one.values}  # == takes 1 and True for one value
            else:
                flat.setdefault(repr(one), one)
    found = (*([OneOf(tuple(values.values()))] if values else []), *flat.values())
    return found[0] if len(found) == 1 else Either(found)
