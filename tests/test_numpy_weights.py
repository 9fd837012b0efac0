"""Weights of the NumPy executor: all rows of each, whatever pieces they are expanded in, and as many as there is room for."""

import threading

import numpy as np
import pytest
from gpu_ops import tensor
from small_decoder import small_decoder

from doppler_core.device import numpy_weights
from doppler_core.device.numpy_weights import Expanded, Packed, load_weights
from doppler_core.plan.op import Plan
from doppler_core.weights.storage import to_f32
from doppler_core.weights.tensor import StorageType, Tensor


def stored(dtype: StorageType) -> tuple[Plan, dict[str, Tensor]]:
    """A small model whose matrices are of one type; in the file they have names of its own."""
    plan, tensors = small_decoder()
    return plan, {
        name: tensor(f"file.{name}", to_f32(one).reshape(one.shape), dtype if len(one.shape) > 1 else "f32")
        for name, one in tensors.items()
    }


@pytest.mark.parametrize("piece", [1, 2_000, 16 << 20], ids=["row by row", "a few rows", "whole"])
@pytest.mark.parametrize("dtype", ["f32", "f16", "q8_0", "q5_0", "q4_k"])
def test_weights_are_those_of_the_file(
    dtype: StorageType, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numpy_weights, "PIECE_BYTES", piece)
    plan, tensors = stored(dtype)
    expanded = {name: one for name, one in load_weights(plan, tensors, None, None).items() if not one.packed}
    assert len(expanded) == 5  # keys and values of two layers, and the head; the table is looked up only
    for name, weight in expanded.items():
        expected = to_f32(tensors[name])
        assert np.array_equal(weight.values(0, len(expected)), expected), name


def test_progress_counts_the_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, tensors = stored("q8_0")
    told: list[tuple[str, int, int]] = []
    for piece in (16 << 20, 2_000):
        monkeypatch.setattr(numpy_weights, "PIECE_BYTES", piece)
        load_weights(plan, tensors, None, lambda *said: told.append(said))
    whole, parted = told[0][2], told[-1][2]
    assert parted > whole
    assert told == [("expanding weights", done, total) for total in (whole, parted) for done in range(total)]


def test_what_does_not_fit_stays_packed() -> None:
    plan, tensors = stored("q8_0")
    everything = load_weights(plan, tensors, None, None)
    room = sum(one.nbytes for one in everything.values()) // 2
    found = load_weights(plan, tensors, room, None)
    assert found.keys() == everything.keys()
    assert {type(one) for one in found.values()} == {Expanded, Packed}
    assert sum(one.nbytes for one in found.values()) <= room


def test_a_table_that_is_larger_than_all_others_is_expanded_by_several_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both = threading.Barrier(2, timeout=30)
    monkeypatch.setattr(numpy_weights, "blas_threads", lambda: 2)
    monkeypatch.setattr(numpy_weights, "PIECE_BYTES", 64)
    # Each piece waits for another one that is under way at the same time.
    monkeypatch.setattr(numpy_weights, "fill_f32", lambda *_: both.wait())
    large = {"large": tensor("large", np.ones((8, 32)), "q8_0")}
    assert numpy_weights._expanded(large, None)["large"].shape == (8, 32)
