"""Who shares out the products of one-row steps on NumPy: found by time, and without a trace in the values."""

import numpy as np
import pytest

from doppler_core.device.numpy_products import TOGETHER, multiply, product_parts
from doppler_core.device.numpy_sharing import TRY_AGAIN, Sharing
from doppler_core.device.numpy_weights import Expanded
from doppler_core.device.threads import one_blas_thread


def run(sharing: Sharing, steps: int, by_blas: float, by_crew: float) -> list[bool]:
    """So many steps that take as long as said either way; who shared them out."""
    chosen = []
    for _ in range(steps):
        way = sharing.by_blas()
        sharing.note(way, by_blas if way else by_crew)
        chosen.append(way)
    return chosen


@pytest.mark.parametrize(("by_blas", "by_crew", "best"), [(1.0, 2.0, True), (2.0, 1.0, False)])
def test_both_ways_are_tried_and_the_faster_one_is_kept(by_blas: float, by_crew: float, best: bool) -> None:
    chosen = run(Sharing(), 10 * TRY_AGAIN, by_blas, by_crew)
    assert chosen[:2] == [False, True]
    assert 8 <= chosen[2:].count(not best) <= 10  # the other one is tried now and then


def test_a_core_that_is_taken_away_changes_the_way_at_the_next_step_and_back() -> None:
    sharing = Sharing()
    assert run(sharing, 20, by_blas=0.8, by_crew=1.0)[-1]
    busy = run(sharing, 20, by_blas=3.0, by_crew=1.1)
    assert busy[:2] == [True, False]
    assert run(sharing, 8 * TRY_AGAIN, by_blas=0.8, by_crew=1.0)[-5:].count(True) >= 4


@pytest.mark.parametrize(
    ("columns", "inner"), [(2048, 640), (640, 2048), (1000, 96), (262, 1152), (5000, 64)]
)
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_a_row_s_product_is_the_same_in_any_parts(columns: int, inner: int, threads: int) -> None:
    """To the bit: a text must not change with what else the machine does."""
    draw = np.random.default_rng(columns)
    weight = Expanded(draw.standard_normal((columns, inner), dtype=np.float32))
    x = draw.standard_normal((1, inner), dtype=np.float32)
    whole, parted = np.empty((1, columns), np.float32), np.empty((1, columns), np.float32)
    (all_columns,) = product_parts(1, (columns, inner), False, 1)
    multiply(x, weight, whole, all_columns)  # BLAS shares it out
    parts = product_parts(1, (columns, inner), False, threads)
    assert all(part.first % TOGETHER == 0 for part in parts)
    with one_blas_thread():
        for part in parts:
            multiply(x, weight, parted, part)
    np.testing.assert_array_equal(parted, whole)
