"""The oracle itself, against small sums done by hand."""

import numpy as np
import pytest
from steps import tables

from doppler_core.plan.constants import rope as rope_table
from doppler_core.plan.meaning import MEANINGS, Operands, Tables, visible


def made(lengths: list[int], seed: int = 0) -> tuple[Tables, np.random.Generator]:
    draw = np.random.default_rng(seed)
    return Tables(*tables([draw.integers(0, 50, length).tolist() for length in lengths], 8)), draw


def test_rmsnorm_divides_by_the_root_mean_square_and_adds_the_offset() -> None:
    x = np.array([[3.0, 4.0]], np.float32)
    found = MEANINGS["rmsnorm"](
        {"eps": 0.0, "offset": 1.0, "columns": 2}, Operands([x], [np.array([1, 0], np.float32)]), made([1])[0]
    )
    assert np.allclose(found, [[3 / 12.5**0.5 * 2, 4 / 12.5**0.5]])


def test_rope_turns_the_pair_half_a_head_apart() -> None:
    table = rope_table({"positions": 2, "head_dim": 2, "theta": 10.0, "scaling_factor": 1.0})
    step = Tables(*tables([[0, 0]], 8))
    found = MEANINGS["rope"](
        {"heads": 1, "head_dim": 2},
        Operands([np.array([[1, 0], [1, 0]], np.float32)], constants=[table]),
        step,
    )
    assert np.allclose(found, [[1, 0], [np.cos(1), np.sin(1)]])


def test_rope_angles_shrink_with_the_pair_and_the_scaling_factor() -> None:
    table = rope_table({"positions": 9, "head_dim": 4, "theta": 100.0, "scaling_factor": 2.0})
    assert np.allclose(table[8, :, 0], [np.cos(4), np.cos(0.4)])


def test_gelu_is_the_tanh_form() -> None:
    found = MEANINGS["gelu"](
        {"columns": 1}, Operands([np.ones((1, 1), np.float32), np.full((1, 1), 2, np.float32)]), made([1])[0]
    )
    assert found[0, 0] == pytest.approx(2 * 0.841192, abs=1e-6)


@pytest.mark.parametrize(
    ("causal", "window", "seen"),
    [
        (False, 0, [0, 1, 2, 3, 4, 5]),
        (False, 4, [1, 2, 3, 4, 5]),  # two on each side of 3
        (True, 0, [0, 1, 2, 3]),
        (True, 2, [2, 3]),  # the last two, itself among them
    ],
)
def test_a_query_sees_its_window(causal: bool, window: int, seen: list[int]) -> None:
    position = np.arange(6, dtype=np.uint32)
    mask = visible({"causal": causal, "window": window}, position[3:4], position)
    assert np.flatnonzero(mask[0]).tolist() == seen


def test_attention_of_one_slot_does_not_see_another() -> None:
    both, draw = made([3, 2])
    params = {
        "heads": 2,
        "kv_heads": 1,
        "head_dim": 4,
        "scale": 0.5,
        "window": 0,
        "causal": False,
        "softcap": 0.0,
    }
    q, k, v = (draw.standard_normal((5, width), dtype=np.float32) for width in (8, 4, 4))
    found = MEANINGS["attention"](params, Operands([q, k, v]), both)
    alone = MEANINGS["attention"](params, Operands([q[3:], k[3:], v[3:]]), made([2])[0])
    assert np.allclose(found[3:], alone, atol=1e-6)
