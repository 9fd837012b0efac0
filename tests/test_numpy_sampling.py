"""The NumPy executor's faster twins of the ops that choose tokens, against their meaning: word for word."""

import numpy as np
import pytest
from sampling_steps import (
    KINDS,
    awkward_logits,
    meant,
    random_settings,
    random_states,
    step_of,
    twinned,
    without_limits,
)

from doppler_core.device.numpy_sampling import CHUNK, FEW, SAMPLING_OPS
from doppler_core.plan.sampling import TOP_LOGPROBS, Sampling

SIZES = [1, 2, 5, 31, 257, 5 * FEW]


def words(*shape: int) -> np.ndarray:
    return np.full(shape, 0xABABABAB, np.uint32)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("vocabulary", SIZES)
def test_twins_choose_what_the_meaning_chooses(kind: str, vocabulary: int) -> None:
    draw = np.random.default_rng(vocabulary)
    for _ in range(4):
        logits = awkward_logits(draw, 3, vocabulary, kind)
        step = step_of([random_settings(draw, vocabulary) for _ in range(3)], places=[2, 0, 1])
        states = random_states(draw, 3, vocabulary).all
        adjusted = meant("adjust", step, logits, *states)
        found = twinned("adjust", step, logits, *states, output=np.empty_like(logits))
        np.testing.assert_array_equal(found, adjusted)
        for x in (logits, adjusted):
            sampled = meant("draw", step, x)
            np.testing.assert_array_equal(twinned("draw", step, x, output=words(3, 1)), sampled)
            np.testing.assert_array_equal(
                twinned("sample", step, x, output=words(3, 1)), meant("sample", step, x)
            )
            told = twinned("logprobs", step, x, sampled, output=words(3, 2 + 2 * TOP_LOGPROBS))
            np.testing.assert_array_equal(told, meant("logprobs", step, x, sampled))


@pytest.mark.parametrize("scale", [0.01, 1, 5])
def test_without_limits_every_chunk_of_the_vocabulary_can_win(scale: float) -> None:
    vocabulary = 3 * CHUNK + 17
    draw = np.random.default_rng(1)
    logits = (draw.standard_normal((8, vocabulary)) * scale).astype(np.float32)
    settings = [Sampling(temperature=1.0, seed=seed) for seed in range(8)]
    for changed in (settings, without_limits(settings, 0.3)):
        found = twinned("draw", step_of(changed), logits, output=words(8, 1))
        np.testing.assert_array_equal(found, meant("draw", step_of(changed), logits))


def test_count_changes_the_state_and_advance_the_rows() -> None:
    step = step_of([Sampling()] * 3, places=[1, 2, 0])
    step.rows[:, 2] = [2, 0, 1]
    sampled = np.array([[4], [0xFFFFFFFF], [0]], np.uint32)
    counts = np.arange(15, dtype=np.uint32).reshape(3, 5)
    expected = meant("count", step, sampled, counts)
    np.testing.assert_array_equal(twinned("count", step, sampled, output=counts), expected)
    rows = meant("advance", step, sampled, vocabulary=5)
    np.testing.assert_array_equal(twinned("advance", step, sampled, output=step.rows, vocabulary=5), rows)


def test_every_op_that_chooses_has_a_twin() -> None:
    assert set(SAMPLING_OPS) == {"adjust", "sample", "draw", "logprobs", "count", "advance"}
