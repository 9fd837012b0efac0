"""The kernels that pass a canvas from step to step, on the software GPU adapter, against their meaning: line by line."""

from dataclasses import replace

import numpy as np
import pytest
from canvas_cases import CAPACITY, LINES, assert_numbers, awkward_step, case, kept
from canvas_steps import canvas_step, drawn_noise, drawn_picks, meant
from gpu_ops import Kept, feed, software_gpu, tensor

from doppler_core.device.executor import StepTables
from doppler_core.device.wgpu_executor import bind_wgpu
from doppler_core.plan.canvas import CanvasStep
from doppler_core.plan.op import ROWS, Kernel, Op, Plan


def test_a_canvas_is_seated_in_the_rows_of_its_slot() -> None:
    step = awkward_step()
    canvas = np.random.default_rng(0).integers(0, 50, (LINES, 4)).astype(np.uint32)
    state = kept(canvas).state("canvas")
    seat = Op(
        "seat", "seat", None, Kernel("seat.wgsl", "main", ""), (state,), ROWS, params={"capacity": CAPACITY}
    )
    ids = np.arange(50, dtype=np.float32)[:, None]
    # What the next op reads as the tokens of its rows.
    ops = (seat, *feed("token", ids, False))
    plan = Plan("test", {"denoise": ops}, {"denoise": (ops[-1].output,)})
    executor = bind_wgpu(
        plan, {"token": tensor("token", ids)}, software_gpu(), max_rows=len(step.rows), max_slots=3
    )
    executor.write_state("canvas", 0, canvas)
    found = executor.submit("denoise", StepTables(step.rows, step.slots, step.sampling)).result()["token"][
        0, :, 0
    ]
    np.testing.assert_array_equal(found, meant("seat", step, canvas, capacity=CAPACITY)[:, 0])


@pytest.mark.parametrize("columns", [1, 90, 1030])
def test_rows_recall_the_lines_of_their_positions(columns: int) -> None:
    state = np.random.default_rng(columns).standard_normal((LINES, columns), np.float32)
    one = replace(case("recall", awkward_step(), [state], False, columns=columns), columns=columns)
    np.testing.assert_array_equal(one.run(), one.expected())


@pytest.mark.parametrize("vocabulary", [1, 768, 262_144])
def test_noise_is_the_same_to_the_bit(vocabulary: int) -> None:
    every = [CanvasStep(1.0, seed, left, 0.1) for seed, left in ((2**64 - 1, 48), (0, 1), (2**40 + 3, 7))]
    step = canvas_step([8, 1, 5], every, starts=[11, 131_000, 5], places=[2, 3, 0])
    one = case("noise", step, [np.full((LINES, 2), 9, np.uint32)], vocabulary=vocabulary)
    np.testing.assert_array_equal(one.run(), one.expected())


@pytest.mark.parametrize("columns", [1, 90, 1030])
def test_the_soft_embedding_is_made_whole(columns: int) -> None:
    step, draw = awkward_step(), np.random.default_rng(columns)
    soft = draw.standard_normal((LINES, columns), np.float32)
    one = case("soften", step, [drawn_picks(draw, 14, 90), soft], columns=columns, scale=6.0)
    # Two products, rounded once or twice.
    np.testing.assert_allclose(one.run(), one.expected(), rtol=3e-7)


@pytest.mark.parametrize("length", [1, 63, 64, 200])
def test_how_a_canvas_stands(length: int) -> None:
    step, draw = canvas_step([length, 1, length], places=[2, 0, 1]), np.random.default_rng(length)
    picks = drawn_picks(draw, len(step.rows), 3)
    canvas = draw.integers(0, 3, (3 * length, 4)).astype(np.uint32)
    states = [Kept(picks, "u32"), Kept(canvas, "u32", length)]
    one = replace(case("progress", step, [], False, capacity=length), states=states, columns=4, dtype="u32")
    found, expected = one.run(), one.expected()
    np.testing.assert_array_equal(found[:, 1:], expected[:, 1:])
    assert_numbers(found[:, :1], expected[:, :1])


@pytest.mark.parametrize("bound", [0.0, 0.105, 0.555, 100.0])
@pytest.mark.parametrize("length", [1, 64, 200])
def test_positions_are_accepted_or_made_anew(length: int, bound: float) -> None:
    # Bounds lie between the hundredths that entropies sum to.
    every = [CanvasStep(1.0, 0, 1, one) for one in (bound, 0.0, bound / 2)]
    step, draw = canvas_step([length, 1, length], every, places=[2, 0, 1]), np.random.default_rng(length)
    table = [drawn_picks(draw, len(step.rows), 90), drawn_noise(draw, 3 * length, 90)]
    canvas = np.full((3 * length, 4), 7, np.uint32)
    states = [Kept(table[0], "u32"), *(Kept(one, "u32", length) for one in (table[1], canvas))]
    one = replace(case("accept", step, [], capacity=length), states=states)
    np.testing.assert_array_equal(one.run(), one.expected())
