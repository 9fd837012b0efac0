"""Numbers between limits, as regular expressions: takes `minimum` and its like, gives one for each.

They tell numbers apart that are written without an exponent: the ones before a limit by their digits, one by one.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from math import ceil, floor
from typing import Any

# Numbers have no more digits than that before the point.
LARGEST = 10**18 - 1
_LOWEST, _HIGHEST = (Decimal(-LARGEST), False), (Decimal(LARGEST), True)
_LEAST = (("minimum", False), ("exclusiveMinimum", True))
_MOST = (("maximum", False), ("exclusiveMaximum", True))
_FRACTION = r"(\.[0-9]+)?"


def limit_patterns(limits: Iterable[tuple[str, float]]) -> list[str]:
    """An expression for each limit, by JSON Schema's names but for multipleOf."""
    sides = {key: (_least, strictly) for key, strictly in _LEAST}
    sides |= {key: (_most, strictly) for key, strictly in _MOST}
    return [side(_exact(limit), strictly) for key, limit in limits for side, strictly in [sides[key]]]


def number_schema(whole: bool, limits: Mapping[str, float]) -> dict[str, Any]:
    """A number within limits, as llguidance reads JSON Schema."""
    kind = {"type": "integer" if whole else "number", "minimum": -LARGEST, "maximum": LARGEST}
    return kind | dict(limits)


def has_number(limits: Mapping[str, float], whole: bool) -> bool:
    """Whether there is a number within the limits, multipleOf apart."""
    low, is_over = max(
        [_LOWEST, *((_exact(limits[key]), strictly) for key, strictly in _LEAST if key in limits)]
    )
    high, is_within = min(
        [_HIGHEST, *((_exact(limits[key]), not strictly) for key, strictly in _MOST if key in limits)]
    )
    if whole:
        first = floor(low) + 1 if is_over else ceil(low)
        return first <= (floor(high) if is_within else ceil(high) - 1)
    return low < high or (low == high and is_within and not is_over)


def _exact(limit: float) -> Decimal:
    return Decimal(repr(limit)) + 0  # without the sign of a zero


def _least(limit: Decimal, strictly: bool) -> str:
    if limit > 0 or (limit == 0 and strictly):
        return _over(limit, strictly)
    return f"[0-9.]+|-({_under(-limit, strictly)})"


def _most(limit: Decimal, strictly: bool) -> str:
    if limit < 0 or (limit == 0 and strictly):
        return f"-({_over(-limit, strictly)})"
    return f"-[0-9.]+|{_under(limit, strictly)}"


def _over(limit: Decimal, strictly: bool) -> str:
    """From a limit that is not negative on."""
    whole, part = _digits(limit)
    more = [
        f"{whole[:at]}{_between(int(digit) + 1, 9)}[0-9]{{{len(whole) - at - 1}}}"
        for at, digit in enumerate(whole)
        if digit < "9"
    ]
    larger = "|".join([*more, f"[1-9][0-9]{{{len(whole)},}}"])
    ends = [
        rf"\.{part[:at]}{_between(int(digit) + 1, 9)}[0-9]*" for at, digit in enumerate(part) if digit < "9"
    ]
    if strictly:
        ends.append(rf"\.{part}0*[1-9][0-9]*")
    else:
        ends.append(rf"\.{part}[0-9]*" if part else _FRACTION)
    return f"({larger}){_FRACTION}|{whole}({'|'.join(ends)})"


def _under(limit: Decimal, strictly: bool) -> str:
    """From zero up to a limit that is not negative."""
    whole, part = _digits(limit)
    less = [
        f"{whole[:at]}{_between(0, int(digit) - 1)}[0-9]{{{len(whole) - at - 1}}}"
        for at, digit in enumerate(whole)
        if digit > "0"
    ]
    fewer = [f"[0-9]{{1,{len(whole) - 1}}}"] if len(whole) > 1 else []
    smaller = [f"({'|'.join([*less, *fewer])}){_FRACTION}"] if less or fewer else []
    ends = [
        rf"\.{part[:at]}{_between(0, int(digit) - 1)}[0-9]*" for at, digit in enumerate(part) if digit > "0"
    ]
    ends += [rf"\.{part[:at]}" for at in range(1, len(part))]
    if part:
        ends.append("")
    if not strictly:
        ends.append(rf"\.{part}0*" if part else r"(\.0+)?")
    return "|".join([*smaller, *([f"{whole}({'|'.join(ends)})"] if ends else [])])


def _digits(number: Decimal) -> tuple[str, str]:
    """The digits before and after the point, none that say nothing."""
    whole, _, part = format(number, "f").partition(".")
    return whole, part.rstrip("0")


def _between(low: int, high: int) -> str:
    return f"[{low}-{high}]"
