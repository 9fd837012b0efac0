"""Checks that a value is one of JSON's: takes what somebody gave, gives a copy that nobody else can change."""

import math
from collections.abc import Mapping
from typing import Any

from doppler_core.errors import InputError
from doppler_core.text.tokenizer import well_formed

# Deeper than any schema or argument means to be, and far from Python's own limit.
MOST_DEEP = 64
MOST_BITS = 4096
_MOST_VALUES = 100_000


def json_object(value: object, where: str) -> dict[str, Any]:
    """A copy of a mapping of JSON values, its texts well formed; InputError says where it is none."""
    if not isinstance(value, Mapping):
        raise InputError(f"{where}: expected an object, got {type(value).__name__}")
    copied: dict[str, Any] = _Copy().copied(value, where, 1)
    return copied


def json_value(value: object, where: str) -> Any:
    """A copy of a JSON value, its texts well formed; InputError says where it is none."""
    return _Copy().copied(value, where, 0)


class _Copy:
    """One copy, counting: a value may hold another many times over."""

    def __init__(self) -> None:
        self._left = _MOST_VALUES

    def copied(self, value: object, where: str, depth: int) -> Any:
        self._left -= 1
        if self._left < 0:
            raise InputError(f"{where}: more than {_MOST_VALUES} values in all: that is no prompt's")
        if depth > MOST_DEEP:
            raise InputError(f"{where[:200]}: nested deeper than {MOST_DEEP}")
        if isinstance(value, str):
            return well_formed(str(value))
        if isinstance(value, int) and value.bit_length() > MOST_BITS:
            raise InputError(f"{where}: a whole number of more than {MOST_BITS} bits: give it as text")
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, float):
            if not math.isfinite(value):
                raise InputError(f"{where}: {value} is no number of JSON's")
            return value
        if isinstance(value, list | tuple):
            return [self.copied(one, f"{where}[{at}]", depth + 1) for at, one in enumerate(value)]
        if isinstance(value, Mapping):
            return {
                self._key(key, where): self.copied(one, f"{where}.{key}", depth + 1)
                for key, one in value.items()
            }
        raise InputError(f"{where}: {type(value).__name__} is no JSON value")

    def _key(self, key: object, where: str) -> str:
        if not isinstance(key, str):
            raise InputError(f"{where}: the key {key!r} is {type(key).__name__}: expected a str")
        return well_formed(key)
