"""The NumPy executor's twins of what takes a canvas on, against their meanings."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from canvas_steps import (
    COLD,
    HAIRS,
    canvas_step,
    drawn_noise,
    empty_tally,
    likeliest_by_far,
    meant,
    numbers,
    tallied,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from doppler_core.device import numpy_canvas, numpy_products
from doppler_core.device.numpy_call import Call
from doppler_core.device.numpy_canvas import TALLY_ROWS
from doppler_core.device.numpy_ops import PART_OPS, WHOLE_OPS
from doppler_core.device.numpy_weights import Expanded, NumpyWeight, Packed
from doppler_core.plan.canvas import CanvasStep
from doppler_core.plan.canvas_meaning import BEST, HEAD, MOST, SLOPE, SUM
from doppler_core.plan.op import Scalar
from doppler_core.plan.operands import Tables
from doppler_core.weights.storage import store, to_f32
from doppler_core.weights.tensor import StorageType, Tensor

CAPACITY, PLACES = 40, 4
LINES = PLACES * CAPACITY
# f32 sums of 256 numbers of at most 1, or of some thousand products, in another order.
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def step_of(lengths: list[int]) -> Tables:
    """Canvases at temperatures of their own, each at a place and a position of its own."""
    every = [CanvasStep(0.4 + 0.3 * slot, slot, 5, 0.1, greedy=slot == 2) for slot in range(len(lengths))]
    return canvas_step(lengths, every, [300, 17, 39, 0][: len(lengths)], [2, 0, 3, 1][: len(lengths)])


def run(
    meaning: str,
    step: Tables,
    *inputs: np.ndarray,
    output: np.ndarray,
    weights: tuple[NumpyWeight, ...] = (),
    threads: int = 1,
    **params: Scalar,
) -> np.ndarray:
    """What the twin makes of it, in a copy of `output`, which is the last input too where that is a state."""
    out = output.copy()
    given = [out if one is output else one for one in inputs]
    call = Call(params, given, out, weights, [], [], step)
    if meaning in WHOLE_OPS:
        WHOLE_OPS[meaning](call)
        return out
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numpy_products, "LEAST", 64)
        for part in reversed(PART_OPS[meaning].parts(call, threads)):  # whatever their order
            PART_OPS[meaning].run(call, part)
    return out


def logits_of(rows: int, tokens: int, kind: str) -> np.ndarray:
    draw = np.random.default_rng(tokens)
    x = (3 * draw.standard_normal((rows, tokens))).astype(np.float32)
    match kind:
        case "ties":
            x = np.round(x / 3)
        case "forbidden":
            x[draw.random(x.shape) < 0.9] = -np.inf
        case "none allowed":
            x[0] = -np.inf
        case "infinite":
            x[0, tokens // 2] = np.inf
        case "nan":
            x[0, tokens // 2] = np.nan
    return x


@pytest.mark.parametrize("kind", ["plain", "ties", "forbidden", "none allowed", "infinite", "nan"])
@pytest.mark.parametrize("tokens", [1, 256, 700, 1024])
@pytest.mark.parametrize("first", [0, 512])
def test_a_tile_is_tallied(kind: str, tokens: int, first: int) -> None:
    step = step_of([TALLY_ROWS + 3, 1, 20])
    logits = logits_of(len(step.rows), tokens, kind)
    before = empty_tally(LINES, 1600)
    before[:, :2] = np.array([-5.0, 1.5], np.float32).view(np.uint32)
    expected = meant("tally", step, logits, before, capacity=CAPACITY, first=first)
    found = run("tally", step, logits, before, output=before, threads=2, capacity=CAPACITY, first=first)
    np.testing.assert_array_equal(found[:, :HEAD], expected[:, :HEAD])
    blocks, right = (table[:, HEAD:].reshape(LINES, -1, 4) for table in (found, expected))
    for word in (MOST, BEST):
        np.testing.assert_array_equal(blocks[..., word], right[..., word])
    for word in (SUM, SLOPE):
        values, wanted = (
            np.ascontiguousarray(one[:, first // 256 : (first + tokens + 255) // 256, word]).view(np.float32)
            for one in (blocks, right)
        )
        np.testing.assert_allclose(values, wanted, **CLOSE)
    untouched = np.ones(blocks.shape[:2], np.bool_)
    untouched[:, first // 256 : (first + tokens + 255) // 256] = False
    np.testing.assert_array_equal(blocks[untouched], before[:, HEAD:].reshape(LINES, -1, 4)[untouched])


def table_of(tokens: int, hidden: int, dtype: StorageType) -> Packed:
    values = np.random.default_rng(5).standard_normal((tokens, hidden), np.float32)
    return Packed(
        Tensor("table", values.shape, dtype, store(values, dtype, "table").reshape(-1), Path("table"))
    )


@settings(max_examples=25)
@given(
    st.sampled_from([300, 512, 700]),
    st.sampled_from([40, 256, 300, 900]),
    st.sampled_from(["f16", "q8_0", "q4_k"]),
    st.booleans(),
    st.sampled_from([1, 2, 5]),
)
def test_tiles_are_blended_in_any_parts(
    tokens: int, hidden: int, dtype: StorageType, packed: bool, threads: int
) -> None:
    step, tile = step_of([20, 1, 3]), 256
    logits = logits_of(len(step.rows), tokens, "plain")
    table = table_of(tokens, hidden, dtype)
    soft = np.full((LINES, hidden), 7, np.float32)
    found, expected, tally = soft, soft, empty_tally(LINES, tokens)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numpy_canvas, "LEAST", 64)
        patch.setattr(numpy_canvas, "BLOCK_BYTES", 4 * 256 * 50)  # blocks of a few tokens, the last short
        for first in range(0, tokens, tile):
            own = slice(first, min(first + tile, tokens))
            part = np.ascontiguousarray(logits[:, own])
            tally = meant("tally", step, part, tally, capacity=CAPACITY, first=first)
            values = to_f32(table.tensor, own.start, own.stop)
            weight = replace_rows(table, own) if packed else Expanded(values)
            inputs = {"capacity": CAPACITY, "first": first}
            expected = meant("blend", step, part, tally, expected, weights=[values], **inputs)
            found = run(
                "blend",
                step,
                part,
                tally,
                found,
                output=found,
                weights=(weight,),
                threads=threads,
                **inputs,
            )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def replace_rows(table: Packed, rows: slice) -> Packed:
    data = table.tensor.row_data(rows.start, rows.stop).reshape(-1)
    return Packed(replace(table.tensor, shape=(rows.stop - rows.start, table.tensor.columns), data=data))


@pytest.mark.parametrize("cap", [0.0, 3.0])
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("tokens", [90, 256, 1000])
def test_tokens_are_picked(tokens: int, packed: bool, cap: float) -> None:
    """The third canvas is greedy; a NaN is chosen, and told by the numbers."""
    step, inner = step_of([32, 1, 20, 5]), 96
    rows = len(step.rows)
    draw = np.random.default_rng(tokens)
    hidden = draw.standard_normal((rows, inner), np.float32) / 3
    table = table_of(tokens, inner, "f16")
    head = to_f32(table.tensor)
    logits = hidden @ head.T
    if cap:
        logits = np.float32(cap) * np.tanh(logits / np.float32(cap))
    logits[3, tokens // 2] = np.nan
    tally = tallied(step, logits, LINES, CAPACITY)
    noise = drawn_noise(draw, LINES, tokens)
    sizes = {"capacity": CAPACITY, "cap": cap}
    expected = meant("pick", step, hidden, tally, noise, weights=[head], **sizes)
    weight = table if packed else Expanded(head)
    out = np.zeros((rows, 4), np.uint32)
    found = run("pick", step, hidden, tally, noise, output=out, weights=(weight,), **sizes)
    np.testing.assert_array_equal(found[:, :2], expected[:, :2])
    np.testing.assert_allclose(numbers(found, slice(2, 4)), numbers(expected, slice(2, 4)), **CLOSE)
    assert np.isnan(numbers(found, [2, 3])[3]).all()
    greedy = step.rows[:, 2] == 2
    np.testing.assert_array_equal(found[greedy, 0], found[greedy, 1])
    assert tokens == 90 or (found[~greedy, 0] != found[~greedy, 1]).mean() > 0.1


@pytest.mark.parametrize("temperature", COLD)
@pytest.mark.parametrize("hair", HAIRS)
def test_a_hair_of_rounding_is_no_other_token_where_it_is_cold(temperature: float, hair: float) -> None:
    draw = np.random.default_rng(8)
    logits = likeliest_by_far(draw, 40, 700)
    step = canvas_step([40], [CanvasStep(temperature, 1, 1, 0.1)])
    tally = tallied(step, logits + np.float32(hair), 40, 40)
    out, sizes = np.zeros((40, 4), np.uint32), {"capacity": 40, "cap": 0.0}
    given_ = (np.eye(40, dtype=np.float32), tally, drawn_noise(draw, 40, 700))
    with np.errstate(all="raise", under="ignore"):
        found = run("pick", step, *given_, output=out, weights=(Expanded(logits.T.copy()),), **sizes)
    np.testing.assert_array_equal(found[:, 0], logits.argmax(-1))


def test_the_most_noise_picks_a_token_that_has_weight() -> None:
    """Where rounding would bring the amount past the sum of all: tokens at the end that weigh nothing are not reached."""
    step, tokens = step_of([32]), 600
    hidden, head = np.zeros((32, 4), np.float32), np.zeros((tokens, 4), np.float32)
    hidden[:, 0], head[:, 0] = 1, -1000
    head[100:300, 0] = np.random.default_rng(0).standard_normal(200)
    tally = tallied(step, hidden @ head.T, LINES, CAPACITY)
    noise = np.full((LINES, 2), np.float32(1 - 2**-24).view(np.uint32))
    sizes = {"capacity": CAPACITY, "cap": 0.0}
    out, weights = np.zeros((32, 4), np.uint32), (Expanded(head),)
    found = run("pick", step, hidden, tally, noise, output=out, weights=weights, **sizes)
    assert set(found[:, 0].tolist()) <= {298, 299}
