"""Requests that ask for the impossible are refused before anything runs, with the field, the value, what is expected."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from doppler_core.engine.request import GenerateRequest
from doppler_core.engine.sampling_check import check_sampling
from doppler_core.errors import InputError

NAN, INF = math.nan, math.inf
BEYOND = (10**400, -(10**400), Fraction(10**400))  # numbers that no float is as large as


def asks(**options: Any) -> GenerateRequest:
    return GenerateRequest("1, 2, 3, 4,", **options)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("temperature", x) for x in (-1, -1e-9, NAN, INF, 1e39, "1", True, *BEYOND)],
        *[("top_k", x) for x in (-1, 1.5, 40.0, NAN, "4", True)],
        *[("top_p", x) for x in (-0.1, 1.5, NAN, INF, "1", False, *BEYOND)],
        *[("min_p", x) for x in (-0.1, 1.0001, NAN, "0", *BEYOND)],
        *[("presence_penalty", x) for x in (NAN, INF, -INF, 1e39, "0", *BEYOND)],
        *[("frequency_penalty", x) for x in (NAN, INF, -INF, [1], *BEYOND)],
        *[("repetition_penalty", x) for x in (0, -1, NAN, INF, 1e-46, *BEYOND)],
        *[("seed", x) for x in (1 << 64, -(1 << 63) - 1, 1.0, "42", True)],
        *[("logit_bias", x) for x in ([1.0], {-1: 1.0}, {"5": 1.0}, {2.0: 1.0}, {True: 1.0}, {100: 1.0})],
        *[("logit_bias", {5: x}) for x in (NAN, INF, None, "1", 1e39, *BEYOND)],
    ],
)
def test_a_value_without_a_meaning_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(InputError, match=rf"^{field}.*expected ") as caught:
        check_sampling(asks(**{field: value}), vocabulary=100)
    shown = value[5] if isinstance(value, dict) and 5 in value else value
    told = str(caught.value)
    assert str(shown) in told or type(shown).__name__ in told or str(next(iter(value))) in told


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("temperature", x) for x in (None, 0, 0.0, 1e-6, 2, 1e30, np.float32(0.7))],
        *[("top_k", x) for x in (None, 0, 1, 262_144, 10**9, np.int64(5))],
        *[("top_p", x) for x in (None, 0, 1e-4, 1)],
        *[("min_p", x) for x in (None, 0, 1, 0.05)],
        *[("presence_penalty", x) for x in (None, -2, 2.0)],
        *[("frequency_penalty", x) for x in (None, -2, 2.0)],
        *[("repetition_penalty", x) for x in (None, 1, 0.5, 1.3)],
        *[("seed", x) for x in (None, 0, 42, 2**31, -1, -(1 << 63), (1 << 64) - 1)],
        *[("logit_bias", x) for x in (None, {}, {0: -INF, 99: 100}, {np.int64(7): np.float32(1)})],
    ],
)
def test_a_value_with_a_meaning_is_not(field: str, value: object) -> None:
    check_sampling(asks(**{field: value}), vocabulary=100)


def test_without_a_vocabulary_any_token_id_may_have_a_bias() -> None:
    check_sampling(asks(logit_bias={10**6: 1.0}))
    with pytest.raises(InputError, match="expected a token id, 0 to 99"):
        check_sampling(asks(logit_bias={10**6: 1.0}), vocabulary=100)
