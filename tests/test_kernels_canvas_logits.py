"""The kernels that use up a canvas's logits, on the software GPU adapter, against their meaning and against chance.

So near to where one token ends and the next begins as exp is wrong, chance may draw either.
"""

from dataclasses import replace

import numpy as np
import pytest
from canvas_cases import (
    CAPACITY,
    LINES,
    TOLERANCE,
    assert_numbers,
    awkward_step,
    bits_as_numbers,
    case,
    kept,
    small_gpu,
)
from canvas_steps import (
    COLD,
    HAIRS,
    UNTOUCHED,
    assert_drawn,
    canvas_step,
    drawn_noise,
    empty_tally,
    likeliest_by_far,
    numbers,
    softmax,
    surprising,
    tallied,
)
from gpu_ops import Case, Kept, feed, software_gpu, tensor
from sampling_steps import KINDS, awkward_logits

from doppler_core.device.executor import StepTables
from doppler_core.device.wgpu_executor import bind_wgpu
from doppler_core.plan.canvas import NOTHING, CanvasStep
from doppler_core.plan.canvas_meaning import settings
from doppler_core.plan.op import Kernel, Op, Plan, Value, Weight
from doppler_core.weights.tensor import StorageType, row_bytes

DENSE: list[StorageType] = ["f32", "f16"]


@pytest.mark.parametrize(("columns", "first"), [(1, 0), (255, 256), (257, 0), (9000, 512)])
def test_logits_are_tallied_by_the_block(columns: int, first: int) -> None:
    step, draw = awkward_step(), np.random.default_rng(columns)
    kinds = [KINDS[row % len(KINDS)] for row in range(len(step.rows))]
    logits = np.concatenate([awkward_logits(draw, 1, columns, kind) for kind in kinds])
    tally = empty_tally(LINES, first + columns + 300)
    tally[:, 1] = np.float32(1.5).view(np.uint32)  # the greatest so far
    one = replace(case("tally", step, [tally], columns=columns, first=first), inputs=[logits])
    found, expected = (each.reshape(LINES, -1, 4) for each in (one.run(), one.expected()))
    np.testing.assert_array_equal(found[:, 1:, 3], expected[:, 1:, 3])  # tokens
    # Where a logit is a NaN, so is the greatest of its block, and what its weights sum to is of no use.
    broken = np.isnan(bits_as_numbers(expected[:, 1:, 0])) & (expected[:, 1:, 3] != UNTOUCHED)
    assert broken.any()
    assert np.isnan(bits_as_numbers(found[:, 1:, 0][broken])).all()
    assert_numbers(found[:, 1:, :3][~broken], expected[:, 1:, :3][~broken])
    assert_numbers(found[:, 0], expected[:, 0])


def blending(columns: int, tokens: int, first: int, dtype: StorageType) -> Case:
    """Half-way through a vocabulary of which `first` tokens were blended before, if any."""
    step, draw = awkward_step(), np.random.default_rng(columns + tokens)
    logits = (3 * draw.standard_normal((len(step.rows), first + tokens))).astype(np.float32)
    tally = tallied(step, logits, LINES, CAPACITY, tile=first or 8192)
    # What was there before the first tile is of an earlier request.
    soft = draw.standard_normal((LINES, columns), np.float32) if first else np.full((LINES, columns), np.nan)
    one = case("blend", step, [tally, soft.astype(np.float32)], columns=columns, inner=tokens, first=first)
    return replace(
        one,
        inputs=[logits[:, first:]],
        weights=[draw.standard_normal((tokens, columns), np.float32)],
        weight_types=[(dtype, dtype)],
    )


def assert_blended(found: np.ndarray, expected: np.ndarray) -> None:
    there = np.isfinite(expected)
    np.testing.assert_array_equal(np.isfinite(found), there)
    # f32 sums of up to 700 products, in another order.
    assert np.abs(found[there] - expected[there]).max() <= TOLERANCE * np.abs(expected[there]).max()


@pytest.mark.parametrize("dtype", DENSE)
@pytest.mark.parametrize("first", [0, 256])
@pytest.mark.parametrize(("columns", "tokens"), [(1, 1), (64, 256), (65, 15), (130, 700)])
def test_rows_of_a_tile_are_blended_into_what_is_there(
    dtype: StorageType, first: int, columns: int, tokens: int
) -> None:
    one = blending(columns, tokens, first, dtype)
    assert_blended(one.run(), one.expected())


def test_more_rows_than_a_workgroup_makes_are_blended() -> None:
    step = canvas_step([70, 60], [CanvasStep(0.5, 1, 1, 0.1), CanvasStep(2.0, 1, 1, 0.1)], places=[1, 0])
    draw = np.random.default_rng(0)
    logits, table = draw.standard_normal((130, 300), np.float32), draw.standard_normal((300, 70), np.float32)
    tally = tallied(step, logits, 160, 80)
    one = Case(
        "blend",
        "blend.wgsl#main",
        {"columns": 70, "inner": 300, "first": 0, "capacity": 80},
        step,
        inputs=[logits],
        states=[Kept(tally, "u32", 80), Kept(np.zeros((160, 70), np.float32), "f32", 80)],
        weights=[table],
        weight_types=[("f16", "f16")],
        changes_state=True,
    )
    assert_blended(one.run(), one.expected())


@pytest.mark.parametrize("dtype", DENSE)
@pytest.mark.parametrize("first", [0, 256])
@pytest.mark.parametrize("section_rows", [256, 300])
def test_a_tile_above_the_binding_limit_is_blended_in_parts(
    dtype: StorageType, first: int, section_rows: int
) -> None:
    one = blending(128, 700, first, dtype)
    small = small_gpu(section_rows * row_bytes(dtype, 128), Weight("w0", (700, 128), dtype, dtype))
    assert_blended(one.run(small), one.expected())


def logits_of(hidden: np.ndarray, head: np.ndarray, dtype: StorageType, cap: float) -> np.ndarray:
    logits = hidden @ (head.astype(np.float16) if dtype == "f16" else head).astype(np.float32).T
    return np.float32(cap) * np.tanh(logits / np.float32(cap)) if cap else logits


def picking(
    inner: int,
    vocabulary: int,
    dtype: StorageType = "f32",
    cap: float = 0.0,
    scale: float = 1.0,
    greedy: bool = False,
) -> Case:
    step = awkward_step(greedy=greedy)
    draw = np.random.default_rng(inner + vocabulary)
    hidden = draw.standard_normal((len(step.rows), inner), np.float32)
    head = (draw.standard_normal((vocabulary, inner)) * scale / np.sqrt(inner)).astype(np.float32)
    logits = logits_of(hidden, head, dtype, cap)
    states = [tallied(step, logits, LINES, CAPACITY), drawn_noise(draw, LINES, vocabulary)]
    one = case("pick", step, states, False, columns=vocabulary, inner=inner, cap=cap)
    return replace(
        one, inputs=[hidden], weights=[head], weight_types=[(dtype, dtype)], columns=4, dtype="u32"
    )


def assert_picked(found: np.ndarray, one: Case) -> None:
    """Words but for samples as the meaning has them; samples where they belong."""
    expected = one.expected()
    np.testing.assert_array_equal(found[:, 1], expected[:, 1])
    assert_numbers(found[:, 2:], expected[:, 2:])
    logits = logits_of(one.inputs[0], *one.weights, one.weight_types[0][1], float(one.params["cap"]))
    temperatures = np.array([line.temperature for line in settings(one.tables)])[one.tables.rows[:, 2]]
    shares = softmax(logits / temperatures[:, None], 1.0)
    at = one.tables.lines(CAPACITY)
    assert_drawn(found[:, 0], shares, numbers(one.states[1].values, [0])[at, 0], TOLERANCE)


@pytest.mark.parametrize("dtype", DENSE)
@pytest.mark.parametrize("cap", [0.0, 2.0])
@pytest.mark.parametrize(("inner", "vocabulary"), [(4, 1), (36, 255), (64, 256), (32, 257), (16, 70_000)])
def test_weights_choose_what_they_choose_by_the_meaning(
    inner: int, vocabulary: int, cap: float, dtype: StorageType
) -> None:
    one = picking(inner, vocabulary, dtype, cap)
    assert_picked(one.run(), one)


@pytest.mark.parametrize("scale", [0.01, 30.0])
def test_entropies_near_nothing_and_near_all(scale: float) -> None:
    one = picking(32, 3000, scale=scale)
    found = one.run()
    assert_picked(found, one)
    entropies = numbers(found, [2])
    assert (entropies >= 0).all()
    assert entropies.min() < 0.3 if scale > 1 else entropies.min() > 8


def test_a_greedy_step_takes_the_likeliest_token() -> None:
    found = picking(32, 3000, greedy=True).run()
    np.testing.assert_array_equal(found[:, 0], found[:, 1])


@pytest.mark.parametrize("greedy", [False, True])
@pytest.mark.parametrize("dtype", DENSE)
@pytest.mark.parametrize("section_rows", [256, 1300])
def test_a_head_above_the_binding_limit_is_looked_up_in_parts(
    section_rows: int, dtype: StorageType, greedy: bool
) -> None:
    one = picking(32, 3000, dtype, greedy=greedy)
    small = small_gpu(section_rows * row_bytes(dtype, 32), Weight("w0", (3000, 32), dtype, dtype))
    found = one.run(small)
    if greedy:
        np.testing.assert_array_equal(found[:, 0], found[:, 1])
    else:
        assert_picked(found, one)


@pytest.mark.parametrize("u", [2.0**-24, 1 - 2.0**-24])
def test_the_ends_of_chance_draw_the_first_and_the_last_token_that_is_possible(u: float) -> None:
    logits = np.full(1000, -3e38, np.float32)
    logits[[300, 301, 520, 999]] = [1.0, 2.0, -3.0, -1e30]
    assert drawn_at(logits, u) == (520 if u > 0.5 else 300)


@pytest.mark.parametrize("temperature", COLD)
@pytest.mark.parametrize("hair", HAIRS)
def test_a_hair_of_rounding_is_no_other_token_where_it_is_cold(temperature: float, hair: float) -> None:
    draw = np.random.default_rng(8)
    logits = likeliest_by_far(draw, CAPACITY, 700)
    step = canvas_step([CAPACITY], [CanvasStep(temperature, 1, 1, 0.1)])
    states = [tallied(step, logits + np.float32(hair), LINES, CAPACITY), drawn_noise(draw, LINES, 700)]
    one = case("pick", step, states, False, columns=700, inner=CAPACITY, cap=0.0)
    one = replace(
        one,
        inputs=[np.eye(CAPACITY, dtype=np.float32)],
        weights=[logits.T.copy()],
        weight_types=[("f32", "f32")],
        columns=4,
        dtype="u32",
    )
    np.testing.assert_array_equal(one.run()[:, 0], logits.argmax(-1))


def drawn_at(logits: np.ndarray, u: float) -> int:
    """The token that chance draws from these logits."""
    step = canvas_step([1], [CanvasStep(1.0, 0, 1, 0.1)])
    noise = np.array([[np.float32(u).view(np.uint32), 0]], np.uint32)
    one = case("pick", step, [tallied(step, logits[None], 1, 1), noise], False, capacity=1, inner=4, cap=0.0)
    one = replace(
        one,
        inputs=[np.eye(1, 4, dtype=np.float32)],
        weights=[np.pad(logits[:, None], ((0, 0), (0, 3)))],
        weight_types=[("f32", "f32")],
        columns=4,
        dtype="u32",
    )
    return int(one.run()[0, 0])


def test_a_logit_that_is_no_number_spoils_its_row_and_no_other() -> None:
    one = picking(32, 600)
    tally = one.states[0].values.copy()
    line = 2 * CAPACITY + 14 % CAPACITY  # of row 3
    tally[line, 4:8] = [0xFFC00001, 0, 0, 77]
    spoiled = replace(one, states=[kept(tally), one.states[1]])
    found, before = spoiled.run(), one.run()
    assert found[3].tolist() == [77, 77, 0x7FC00000, 0x7FC00000]
    others = np.arange(len(found)) != 3
    np.testing.assert_array_equal(found[others], before[others])

    canvas = np.full((LINES, 4), NOTHING, np.uint32)
    standing = replace(case("progress", one.tables, [found, canvas], False), columns=4, dtype="u32").run()
    assert standing[:, 2].tolist() == [1, 0, 0]
    assert np.isnan(numbers(standing, [0])[:, 0]).tolist() == [True, False, False]


def test_tokens_are_drawn_on_the_device_as_often_as_they_are_likely_and_noise_alike() -> None:
    draws, vocabulary = 20_000, 515
    logits = (np.random.default_rng(2).standard_normal(vocabulary) / 2).astype(np.float32)
    step = canvas_step([draws], [CanvasStep(0.8, 22, 7, 0.1)])
    alone = canvas_step([1], [CanvasStep(0.8, 22, 7, 0.1)])
    tally = np.repeat(tallied(alone, logits[None], 1, 1), draws, 0)
    head = np.pad(logits[:, None], ((0, 0), (0, 3)))
    states = [
        Kept(one, "u32", draws).state(name)
        for name, one in (("noise", np.zeros((draws, 2), np.uint32)), ("tally", tally))
    ]
    hidden = np.tile(np.eye(1, 4, dtype=np.float32), (draws, 1))
    feeds = feed("hidden", hidden, False)
    picks = Value("picks", ("T", 4), "u32")
    noise = Op(
        "noise",
        "noise",
        None,
        Kernel("noise.wgsl", "main", ""),
        (states[0],),
        states[0],
        params={"capacity": draws, "vocabulary": vocabulary},
    )
    pick = Op(
        "pick",
        "pick",
        None,
        Kernel("pick.wgsl", "main", ""),
        (feeds[-1].output, states[1], states[0]),
        picks,
        (Weight("head", head.shape, "f32", "f32"),),
        params={"capacity": draws, "inner": 4, "cap": 0.0},
    )
    plan = Plan("draws", {"denoise": (*feeds, noise, pick)}, {"denoise": (picks,)})
    tensors = {"hidden": tensor("hidden", hidden), "head": tensor("head", head)}
    executor = bind_wgpu(plan, tensors, software_gpu(), max_rows=draws, max_slots=1)
    executor.write_state("tally", 0, tally)
    found = executor.submit("denoise", StepTables(step.rows, step.slots, step.sampling)).result()["picks"][0]
    weights = np.exp(logits.astype(np.float64) / 0.8)
    assert not surprising(np.bincount(found[:, 0], minlength=vocabulary), weights / weights.sum() * draws)
    random = executor.read_state("noise", 0, draws)[:, 1]
    assert not surprising(np.bincount(random, minlength=vocabulary), np.full(vocabulary, draws / vocabulary))
