"""Attention over a state's keys and values, every kernel against the meaning: rings, windows, chunks, batch mates."""

from dataclasses import replace

import numpy as np
import pytest
from gpu_ops import Case, Kept, packed_step

from doppler_core.plan.kernels import SIGNATURES
from doppler_core.plan.meaning import Tables
from doppler_core.plan.op import ValueType

# Scores are f32 sums of head_dim products, and the driver's exp is right to 4e-6 relative; weights sum to 1. The
# meaning is given the f16 state's very values, so f16 adds nothing.
TOLERANCE = 1e-5

LARGEST_HEAD = {
    "attention_decode_online_f16kv.wgsl": 512,
    "attention_streaming_f16kv.wgsl": 512,
    "attention_small_f16kv.wgsl": 256,
    "attention_head256_f16kv.wgsl": 256,
    "attention_head512_f16kv.wgsl": 512,
    "attention_cached_broadcast.wgsl": 512,
}
KERNELS = list(LARGEST_HEAD)
MULTIPLES = {row.file: row.multiples["head_dim"] for row in SIGNATURES.values() if row.file in KERNELS}


def case(
    kernel: str,
    step: Tables,
    heads: int = 2,
    kv_heads: int = 1,
    head_dim: int = 64,
    capacity: int = 320,
    window: int = 0,
    softcap: float = 0.0,
    dtype: ValueType = "f16",
    spread: float = 1.0,
    canvas: bool = False,
) -> Case:
    """A state full of numbers, those of other places and of positions not seen among them."""
    rng = np.random.default_rng(len(step.rows) + head_dim)
    places = int(step.slots[:, 3].max()) + 1
    state = rng.standard_normal((places * capacity, 2 * kv_heads * head_dim), np.float32)
    return Case(
        "cached_attention",
        f"{kernel}#main",
        {
            "heads": heads,
            "kv_heads": kv_heads,
            "head_dim": head_dim,
            "scale": head_dim**-0.5,
            "window": window,
            "capacity": capacity,
            "softcap": softcap,
            "canvas": canvas,
        },
        step,
        inputs=[np.float32(spread) * rng.standard_normal((len(step.rows), heads * head_dim), np.float32)],
        states=[Kept(state, dtype, capacity)],
        columns=heads * head_dim,
    )


def assert_close(one: Case, tolerance: float = TOLERANCE) -> None:
    found, expected = one.run(), one.expected()
    assert np.isfinite(found).all()
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


def test_these_are_all_kernels_of_cached_attention() -> None:
    known = {
        row.file: row.most["head_dim"] for row in SIGNATURES.values() if row.meaning == "cached_attention"
    }
    assert {file: known[file] for file in KERNELS} == LARGEST_HEAD


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("position", [0, 1, 7, 127, 128, 255, 256, 319])
def test_one_row_at_any_position(kernel: str, position: int) -> None:
    assert_close(case(kernel, packed_step([1], start=position, places=[2])))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("rows", [2, 8, 17, 65])
def test_a_chunk_of_a_prompt_sees_what_came_before_it(kernel: str, rows: int) -> None:
    assert_close(case(kernel, packed_step([rows])))
    assert_close(case(kernel, packed_step([rows], start=200, places=[1])))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", ["f16", "f32"])
@pytest.mark.parametrize("window", [0, 1, 8, 150])
def test_chunks_and_single_rows_of_several_sequences(kernel: str, dtype: ValueType, window: int) -> None:
    """Prompts beside decoding rows, in places in any order."""
    step = packed_step([5, 1, 40, 1, 17], start=[0, 300, 60, 0, 150], places=[4, 0, 5, 2, 1])
    assert_close(case(kernel, step, window=window, dtype=dtype))


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_ring_holds_the_window_and_the_chunk(kernel: str) -> None:
    """A capacity of window + chunk, chunks just before, across and after the ring's end, and many turns on."""
    capacity, window = 40, 24
    step = packed_step([16, 16, 1, 1, 3], start=[24, 30, 40, 79, 1001], places=[0, 3, 2, 1, 4])
    assert_close(case(kernel, step, capacity=capacity, window=window))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("heads", "kv_heads", "head_dim"),
    [(1, 1, 4), (4, 2, 16), (3, 1, 36), (8, 4, 64), (2, 2, 100), (5, 1, 192), (4, 1, 256), (8, 1, 512)],
)
def test_head_sizes_and_groups(kernel: str, heads: int, kv_heads: int, head_dim: int) -> None:
    if head_dim <= LARGEST_HEAD[kernel] and head_dim % MULTIPLES[kernel] == 0:
        step = packed_step([9, 1], start=[20, 130])
        assert_close(case(kernel, step, heads, kv_heads, head_dim, capacity=140, window=100))


def test_many_blocks_of_positions_are_one_softmax() -> None:
    """The largest score in any of a row's blocks; a block that adds next to nothing."""
    one = case("attention_cached_broadcast.wgsl", packed_step([1], start=1099), capacity=1100)
    for position in (0, 300, 600, 1099):
        found = replace(one, states=[Kept(one.states[0].values.copy(), "f16", 1100)])
        found.states[0].values[position, :64] = 8 * one.inputs[0][0, :64]
        assert_close(found)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_soft_cap_bounds_scores(kernel: str) -> None:
    one = case(kernel, packed_step([9], start=60), softcap=2.0, spread=3.0)
    assert_close(one)
    uncapped = case(kernel, packed_step([9], start=60), spread=3.0)
    assert np.abs(one.run() - uncapped.run()).max() > 0.1


@pytest.mark.parametrize("kernel", KERNELS)
def test_large_scores_do_not_overflow(kernel: str) -> None:
    # Scores of some hundreds: exp overflows unless the largest is subtracted first. Their own rounding, 2^-24 of
    # hundreds, shows in the weights: hence the wider tolerance.
    assert_close(case(kernel, packed_step([5], start=300), spread=100.0), 1e-3)


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_a_row_does_not_see_does_not_count_even_if_it_is_no_number(kernel: str) -> None:
    """Other places, positions before every row's window and after the last row hold NaN."""
    one = case(kernel, packed_step([20], start=100, places=[1]), window=8)
    state = one.states[0].values
    state[:320], state[320 : 320 + 93], state[320 + 120 :] = np.nan, np.nan, np.nan
    assert_close(one)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("window", [0, 1, 9, 150])
def test_all_rows_of_a_canvas_see_all_of_it_and_the_window_before_it(kernel: str, window: int) -> None:
    """Canvases of several sizes, one before which nothing is."""
    step = packed_step([32, 1, 19, 8], start=[0, 300, 140, 7], places=[3, 0, 2, 1])
    one = case(kernel, step, window=window, canvas=True)
    assert_close(one)
    causal = replace(one, params={**one.params, "canvas": False})
    assert np.abs(one.run() - causal.run()).max() > 0.1


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_ring_holds_the_window_and_the_canvas(kernel: str) -> None:
    """Canvases just before, across and after the ring's end, and many turns on; what none of them sees holds NaN."""
    capacity, window, length = 39, 24, 16
    step = packed_step([length] * 4, start=[23, 30, 39, 1001], places=[0, 3, 2, 1])
    one = case(kernel, step, capacity=capacity, window=window, canvas=True)
    state = one.states[0].values.reshape(4, capacity, -1)
    for start, place in ((23, 0), (30, 3), (39, 2), (1001, 1)):
        seen = np.arange(start - window + 1, start + length) % capacity
        state[place, np.setdiff1d(np.arange(capacity), seen)] = np.nan
    assert_close(one)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_last_rows_alone_give_what_they_give_among_all(kernel: str) -> None:
    """Layers that share keys and values run on each slot's last row: as many rows as sequences."""
    step = packed_step([5, 1, 20], start=[0, 300, 60], places=[2, 0, 1])
    whole = case(kernel, step, window=50)
    last = [4, 5, 25]
    alone = replace(whole, inputs=[whole.inputs[0][last]], per_sequence=True)
    assert_close(alone)
    np.testing.assert_allclose(alone.run(), whole.run()[last], atol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_step_of_many_sequences_is_what_each_gives_alone(kernel: str) -> None:
    """To the last bit: what a row sums does not depend on its mates."""
    starts = [0, 17, 31, 64, 5, 310, 128, 255]
    whole = case(kernel, packed_step([1] * 8, start=starts), window=100)
    found = whole.run()
    for slot, start in enumerate(starts):
        alone = packed_step([1], start=start, places=[slot])
        one = replace(whole, tables=alone, inputs=[whole.inputs[0][slot : slot + 1]])
        np.testing.assert_array_equal(one.run(), found[slot : slot + 1])
