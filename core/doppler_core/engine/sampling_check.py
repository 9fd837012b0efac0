"""How a request wants its tokens chosen: takes one, gives InputError with the field, its value, what it may be.

None is always right: the checkpoint, or nobody, says. Numbers have to be ones that float32 has, which is what devices
read.
"""

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

from doppler_core.engine.request import GenerateRequest
from doppler_core.errors import InputError

_LARGEST = float(np.finfo(np.float32).max)
_SMALLEST = float(np.finfo(np.float32).tiny)
_SEEDS = range(-(1 << 63), 1 << 64)


def check_sampling(request: GenerateRequest, vocabulary: int | None = None) -> None:
    """InputError for the first field that has no meaning.

    top_k at or above the vocabulary is no limit, as 0 is; top_p 0 is the top token. A seed is 64 bits: a negative one
    stands for the bits of its two's complement. vocabulary: how many tokens there are, where that is known.
    """
    _check_number("temperature", request.temperature, 0.0, _LARGEST, "0 (the likeliest token) or more")
    _check_whole("top_k", request.top_k, "0 (no limit) or more", least=0)
    _check_number("top_p", request.top_p, 0.0, 1.0, "0 (the top token) to 1 (no limit)")
    _check_number("min_p", request.min_p, 0.0, 1.0, "0 (no limit) to 1")
    for name in ("presence_penalty", "frequency_penalty"):
        _check_number(name, getattr(request, name), -_LARGEST, _LARGEST, "a finite number, 0 for none")
    _check_number(
        "repetition_penalty", request.repetition_penalty, _SMALLEST, _LARGEST, "more than 0, 1 for none"
    )
    _check_whole("seed", request.seed, "64 bits")
    if request.seed is not None and int(request.seed) not in _SEEDS:
        raise InputError(
            f"seed={request.seed}: expected 64 bits, {_SEEDS.start} to {_SEEDS.stop - 1}, or None"
        )
    if request.logit_bias is not None:
        _check_bias(request.logit_bias, vocabulary)


def _check_bias(bias: Any, vocabulary: int | None) -> None:
    if not isinstance(bias, Mapping):
        raise InputError(
            f"logit_bias is {_kind(bias)}: expected a number for each of some token ids, or None"
        )
    beyond = math.inf if vocabulary is None else vocabulary
    ids = "a token id" if vocabulary is None else f"a token id, 0 to {vocabulary - 1}"
    for token, value in bias.items():
        if isinstance(token, bool) or not isinstance(token, Integral) or not 0 <= int(token) < beyond:
            raise InputError(f"logit_bias of {token!r}: expected {ids}")
        if value != -math.inf:
            wanted = "a finite number, or -inf to forbid the token"
            _check_number(f"logit_bias of {token}", value, -_LARGEST, _LARGEST, wanted, optional=False)


def _check_number(
    name: str, value: object, least: float, most: float, wanted: str, optional: bool = True
) -> None:
    """NaN is in no range."""
    if value is None and optional:
        return
    or_none = ", or None" if optional else ""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(f"{name} is {_kind(value)}: expected a number, {wanted}{or_none}")
    if not least <= _float(value) <= most:
        raise InputError(f"{name}={value}: expected {wanted}{or_none}")


def _float(value: Real) -> float:
    """The number itself, NaN where it is beyond all floats."""
    try:
        return float(value)
    except OverflowError:
        return math.nan


def _check_whole(name: str, value: object, wanted: str, least: int | None = None) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InputError(f"{name} is {_kind(value)} {value!r}: expected a whole number, {wanted}, or None")
    if least is not None and int(value) < least:
        raise InputError(f"{name}={value}: expected {wanted}, or None")


def _kind(value: object) -> str:
    return type(value).__name__
