"""The kernels that choose tokens, on the software GPU adapter, against their meaning: token for token.

Their exp and log round otherwise than NumPy's, by 4e-6: a draw differs where two tokens come as near, or where the
token on the border of top_p wins, once in some hundred thousand draws. Seeds are fixed, and none of these does.
"""

from collections.abc import Mapping

import numpy as np
import pytest
from gpu_ops import feed, software_gpu, tensor
from sampling_steps import (
    KINDS,
    awkward_logits,
    meant,
    random_settings,
    random_states,
    step_of,
    without_limits,
)

from doppler_core.device.executor import StepTables
from doppler_core.device.wgpu_executor import WgpuExecutor, bind_wgpu
from doppler_core.plan.op import ROWS, Kernel, Op, Plan, State, Value
from doppler_core.plan.operands import Tables
from doppler_core.plan.sampling import TOP_LOGPROBS, Sampling, asked_for

GEMMA = 262_144  # tokens of the real vocabulary


def chooser(table: np.ndarray, slots: int) -> WgpuExecutor:
    """Chooses from the line of the table that a row's token names: a model in which only the last token matters."""
    ids, vocabulary = table.shape
    feeds = feed("logits", table, per_sequence=True)
    logits = feeds[-1].output
    counts = State("counts", (slots, vocabulary), "u32")
    bias = State("bias", (slots, vocabulary), "f32")
    mask = State("mask", (slots, -(-vocabulary // 32)), "u32")
    adjusted = Value("adjusted", ("S", vocabulary))
    sampled = Value("sampled", ("S", 1), "u32")
    logprobs = Value("logprobs", ("S", 2 + 2 * TOP_LOGPROBS), "u32")

    def op(meaning: str, inputs: tuple[Value, ...], output: Value, when: str, entry: str = "main") -> Op:
        params = {"vocabulary": ids} if when in ("count", "advance") else {}
        return Op(
            meaning,
            meaning,
            None,
            Kernel(f"{meaning}.wgsl", entry, ""),
            inputs,
            output,
            params=params,
            when=when,
        )

    ops = (
        op("sample", (logits,), sampled, "greedy", "sample_single_pass"),
        op("adjust", (logits, counts, bias, mask), adjusted, "draw"),
        op("draw", (adjusted,), sampled, "draw"),
        op("logprobs", (logits, sampled), logprobs, "logprobs"),
        op("count", (sampled, counts), counts, "count"),
        op("advance", (sampled,), ROWS, "advance"),
    )
    plan = Plan("chooser", {"decode": (*feeds, *ops)}, {"decode": (sampled, logprobs, adjusted)})
    weights = {"logits": tensor("logits", table)}
    return bind_wgpu(plan, weights, software_gpu(), max_rows=slots, max_slots=slots)


def chosen(
    executor: WgpuExecutor, step: Tables, active: frozenset[str], steps: int = 1
) -> Mapping[str, np.ndarray]:
    tables = StepTables(step.rows, step.slots, step.sampling, active)
    return executor.submit("decode", tables, steps).result()


def assert_same_logprobs(found: np.ndarray, expected: np.ndarray) -> None:
    """The same tokens. Sums of up to 300,000 terms in another order, and the driver's exp and log."""
    np.testing.assert_array_equal(found[:, 2::2], expected[:, 2::2])
    numbers = [np.concatenate([x[:, :1], x[:, 3::2]], 1).view(np.float32) for x in (found, expected)]
    np.testing.assert_allclose(*numbers, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("vocabulary", [1, 31, 257, 1000, 4099])
@pytest.mark.parametrize("kind", KINDS)
def test_kernels_choose_what_the_meaning_chooses(kind: str, vocabulary: int) -> None:
    draw = np.random.default_rng(vocabulary)
    slots = 4
    logits = awkward_logits(draw, slots, vocabulary, kind)
    executor = chooser(logits, slots)
    states = random_states(draw, slots, vocabulary)
    for name, values in (("counts", states.counts), ("bias", states.bias), ("mask", states.mask)):
        executor.write_state(name, 0, values)
    for _ in range(3):
        settings = [random_settings(draw, vocabulary) for _ in range(slots)]
        step = step_of(settings, places=[2, 0, 3, 1])
        step.rows[:, 0] = np.arange(slots)
        found = chosen(executor, step, frozenset(["draw", "logprobs"]))
        adjusted = meant("adjust", step, logits, *states.all)
        # One multiplication and two subtractions, which a device may fuse.
        np.testing.assert_allclose(found["adjusted"][0], adjusted, rtol=1e-6, atol=1e-6)
        sampled = meant("draw", step, found["adjusted"][0])
        np.testing.assert_array_equal(found["sampled"][0], sampled)
        assert_same_logprobs(found["logprobs"][0], meant("logprobs", step, logits, sampled))
        greedy = chosen(executor, step, frozenset(["greedy"]))
        np.testing.assert_array_equal(greedy["sampled"][0], meant("sample", step, logits))


@pytest.mark.parametrize("scale", [1, 4])
def test_the_real_vocabulary(scale: float) -> None:
    draw = np.random.default_rng(7)
    logits = (draw.standard_normal((2, GEMMA)) * scale).astype(np.float32)
    executor = chooser(logits, 2)
    for one in (
        Sampling(temperature=1.0, top_k=64, top_p=0.95),
        Sampling(temperature=1.0, top_p=0.95),
        Sampling(temperature=0.7, top_k=50_000, top_p=0.5, min_p=1e-5),
        Sampling(temperature=1.0),
    ):
        step = step_of([one, one], positions=[3, 4])
        step.rows[:, 0] = [0, 1]
        found = chosen(executor, step, frozenset(["draw", "logprobs"]))
        sampled = meant("draw", step, logits)
        np.testing.assert_array_equal(found["sampled"][0], sampled)
        assert_same_logprobs(found["logprobs"][0], meant("logprobs", step, logits, sampled))
    greedy = chosen(executor, step, frozenset(["greedy"]))
    np.testing.assert_array_equal(greedy["sampled"][0], logits.argmax(1)[:, None])


@pytest.mark.parametrize("kept", [100, 256, 1500])
def test_a_vocabulary_that_ties_throughout_is_cut_by_id(kept: int) -> None:
    vocabulary, draws = 200_000, 12
    executor = chooser(np.zeros((1, vocabulary), np.float32), draws)
    for limits in ({"top_k": kept}, {"top_p": (kept - 0.5) / vocabulary}):
        one = Sampling(temperature=1.0, **limits)
        found = chosen(executor, step_of([one] * draws), frozenset(["draw"]))["sampled"][0]
        # Twelve uniform draws below `kept`: all in the lower half once in four thousand.
        assert kept / 2 < found.max() < kept


@pytest.mark.parametrize("kept", [200, 256, 257, 600])
def test_top_k_on_both_sides_of_what_the_short_way_takes(kept: int) -> None:
    draw = np.random.default_rng(kept)
    logits = draw.permutation(3000).astype(np.float32)[None] / np.float32(300)
    executor = chooser(logits, 64)
    one = Sampling(temperature=1e6, top_k=kept)
    found = chosen(executor, step_of([one] * 64), frozenset(["draw"]))["sampled"][0]
    np.testing.assert_array_equal(found, meant("draw", step_of([one] * 64), np.repeat(logits, 64, 0)))
    assert len(np.unique(found)) > 40  # of 64 draws out of `kept` tokens


def test_tokens_are_drawn_on_the_device_as_often_as_they_are_likely() -> None:
    draws, logits = 20_000, np.array([[2, 1.5, 1, 0, 0, -0.5, -1, -3]], np.float32)
    executor = chooser(logits, draws)
    step = step_of([Sampling(temperature=1.5, seed=11)] * draws, range(draws))
    found = chosen(executor, step, frozenset(["draw"]))["sampled"][0, :, 0]
    expected = np.exp(logits[0] / 1.5) / np.exp(logits[0] / 1.5).sum() * draws
    # Seven degrees of freedom: 24.3 is passed once in a thousand seeds, and this seed is fixed.
    assert ((np.bincount(found, minlength=8) - expected) ** 2 / expected).sum() < 24.3


def test_a_group_of_steps_goes_on_by_itself_and_gives_what_single_steps_give() -> None:
    vocabulary, steps = 90, 12
    draw = np.random.default_rng(3)
    table = (2 * draw.standard_normal((vocabulary, vocabulary))).astype(np.float32)
    settings = [
        Sampling(temperature=0.8, top_k=20, seed=1, frequency=0.7, repetition=1.2),
        Sampling(),
        Sampling(temperature=1.0, top_p=0.9, seed=2, presence=1.0),
    ]
    step = step_of(settings, positions=[4, 9, 2], places=[1, 2, 0])
    step.rows[:, 0] = [7, 8, 9]
    counts = random_states(draw, 3, vocabulary).counts

    expected, kept, now = [], counts, step
    for _ in range(steps):
        logits = table[now.rows[:, 0]]
        adjusted = meant("adjust", now, logits, kept, np.zeros_like(logits), kept)
        expected.append(meant("draw", now, adjusted))
        kept = meant("count", now, expected[-1], kept)
        now = Tables(meant("advance", now, expected[-1], vocabulary=vocabulary), now.slots, now.sampling)

    active = asked_for(settings) | {"advance"}
    for group in (1, 4, steps):
        executor = chooser(table, 3)
        executor.write_state("counts", 0, counts)
        rows, found = step.rows.copy(), []
        for _ in range(steps // group):
            tokens = chosen(executor, Tables(rows, step.slots, step.sampling), active, group)["sampled"]
            found.extend(tokens)
            rows[:, 0] = tokens[-1, :, 0]
            rows[:, 1] += group
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(executor.read_state("counts", 0, 3), kept)


def test_a_slot_draws_the_same_beside_others_and_at_another_place() -> None:
    draw = np.random.default_rng(9)
    table = draw.standard_normal((6, 500)).astype(np.float32)
    settings = without_limits([Sampling(seed=seed) for seed in range(6)], 1.0)
    executor = chooser(table, 6)
    step = step_of(settings, positions=range(20, 26))
    step.rows[:, 0] = np.arange(6)
    together = chosen(executor, step, frozenset(["draw"]))["sampled"][0]
    for slot in range(6):
        alone = step_of([settings[slot]], positions=[20 + slot], places=[5 - slot])
        alone.rows[:, 0] = slot
        found = chosen(executor, alone, frozenset(["draw"]))["sampled"][0]
        np.testing.assert_array_equal(found, together[slot : slot + 1])
