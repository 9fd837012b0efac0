"""What a denoising step of a canvas means: against softmax in one piece, the published update rule, and chance itself."""

import json
from pathlib import Path

import numpy as np
import pytest
from canvas_steps import (
    COLD,
    HAIRS,
    assert_drawn,
    canvas_step,
    drawn_noise,
    empty_tally,
    likeliest_by_far,
    meant,
    numbers,
    softmax,
    surprising,
    tallied,
)
from hypothesis import given
from hypothesis import strategies as st
from sampling_steps import awkward_logits

from doppler_core.plan.canvas import (
    NOTHING,
    CanvasStep,
    first_tokens,
    pack,
    step_noise,
    unpack,
)
from doppler_core.plan.philox import philox

# A line's words: exp and log in f32 are right to 1e-7, sums over a block of 256 tokens to a few times that.
TOLERANCE = 3e-6


def entropy(shares: np.ndarray) -> np.ndarray:
    return -(shares * np.log(np.where(shares > 0, shares, 1))).sum(-1)


def operands(logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Hidden rows and a head whose products are these logits, [T, V]; not -inf, but the least f32 nearly."""
    finite = np.maximum(logits, np.float32(-3e38))
    rows = len(logits)
    return np.eye(rows, -(-rows // 4) * 4, dtype=np.float32), np.pad(finite.T, ((0, 0), (0, -rows % 4)))


@given(
    st.floats(2**-10, 1024, width=32),
    st.integers(0, 2**64 - 1),
    st.integers(1, 10_000),
    st.floats(0, 50, width=32),
)
def test_a_line_of_the_table_holds_its_settings(
    temperature: float, seed: int, left: int, bound: float
) -> None:
    every = [CanvasStep(temperature, seed, left, bound, greedy) for greedy in (False, True)]
    assert [unpack(line) for line in pack(every)] == every


def test_noise_is_of_the_words_that_philox_makes_of_position_and_steps_left() -> None:
    seed, positions = 0x123456789ABCDEF0, np.array([0, 1, 77, 131_071])
    counters = np.array([[position, 12, 1, 0] for position in positions])
    words = philox(counters.astype(np.uint32), (0x9ABCDEF0, 0x12345678)).astype(np.uint64)
    noise = step_noise(seed, 12, positions, 262_144)
    np.testing.assert_array_equal(numbers(noise, [0])[:, 0], ((words[:, 0] >> np.uint64(9)) + 0.5) / 2**23)
    np.testing.assert_array_equal(noise[:, 1], words[:, 1] * np.uint64(262_144) >> np.uint64(32))
    counters[:, 1:3] = 0, 2
    words = philox(counters.astype(np.uint32), (0x9ABCDEF0, 0x12345678)).astype(np.uint64)
    np.testing.assert_array_equal(
        first_tokens(seed, positions, 262_144), words[:, 0] * np.uint64(262_144) >> np.uint64(32)
    )


def test_a_seed_gives_the_noise_that_it_has_always_given() -> None:
    noise = step_noise(7, 3, np.arange(4), 768)
    assert (numbers(noise, [0])[:, 0] * 2**24).tolist() == [12_680_355, 8_374_361, 4_686_659, 5_281_297]
    assert noise[:, 1].tolist() == [176, 676, 506, 709]
    assert first_tokens(7, np.arange(4), 768).tolist() == [723, 714, 477, 198]


@pytest.mark.parametrize("vocabulary", [1, 7, 262_144])
def test_random_tokens_are_those_of_the_vocabulary_each_as_often(vocabulary: int) -> None:
    draws, positions = 20_000, np.arange(20_000)
    u, tokens = step_noise(5, 9, positions, vocabulary).T
    found = u.view(np.float32)
    assert found.min() > 0
    assert found.max() < 1
    for drawn in (tokens, first_tokens(5, positions, vocabulary)):
        assert drawn.max() < vocabulary
        bins = min(vocabulary, 64)
        counts = np.bincount(drawn.astype(np.int64) * bins // vocabulary, minlength=bins)
        assert bins == 1 or not surprising(counts, np.full(bins, draws / bins))
    assert not surprising(np.bincount((found * 64).astype(int), minlength=64), np.full(64, draws / 64))


def test_noise_goes_into_the_lines_of_its_rows_whatever_their_mates_are() -> None:
    settings = [CanvasStep(0.5, 1, 4, 0.1), CanvasStep(0.5, 2, 9, 0.1)]
    step = canvas_step([3, 2], settings, starts=[6, 40], places=[1, 0])
    before = np.full((16, 2), 9, np.uint32)
    found = meant("noise", step, before, capacity=8, vocabulary=100)
    expected = before.copy()
    # Positions 6, 7 and 8 of place 1, 40 and 41 of place 0.
    expected[[14, 15, 8]] = step_noise(1, 4, np.array([6, 7, 8]), 100)
    expected[[0, 1]] = step_noise(2, 9, np.array([40, 41]), 100)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("vocabulary", [1, 255, 256, 257, 1000])
@pytest.mark.parametrize("kind", ["plain", "ties", "equal", "forbidden", "none allowed", "huge"])
def test_tiles_give_what_softmax_in_one_piece_gives(kind: str, vocabulary: int) -> None:
    draw = np.random.default_rng(vocabulary)
    temperatures = (0.4, 1.0, 3.0)
    logits = awkward_logits(draw, 3, vocabulary, kind)
    logits[:, 0] = np.maximum(logits[:, 0], np.float32(-1e30))  # some token is possible
    step = canvas_step([1, 1, 1], [CanvasStep(one, 1, 1, 0.1) for one in temperatures])
    noise = drawn_noise(draw, 3, vocabulary)
    u = numbers(noise, [0])[:, 0]
    shares = np.concatenate([softmax(logits[row : row + 1], one) for row, one in enumerate(temperatures)])
    for tile in (256, 512, 8192):
        tally = tallied(step, logits, 3, 1, tile)
        hidden, head = operands(logits)
        picks = meant("pick", step, hidden, tally, noise, weights=[head], capacity=1, cap=0.0)
        np.testing.assert_array_equal(picks[:, 1], logits.argmax(-1))
        found = numbers(picks, [2, 3])
        np.testing.assert_allclose(found[:, 0], entropy(shares), rtol=TOLERANCE, atol=TOLERANCE)
        np.testing.assert_allclose(found[:, 1], shares.max(-1), rtol=TOLERANCE)
        assert_drawn(picks[:, 0], shares, u, TOLERANCE)


def test_the_head_s_products_are_capped_when_they_are_made_again() -> None:
    draw = np.random.default_rng(1)
    hidden, head = draw.standard_normal((4, 32), np.float32), draw.standard_normal((600, 32), np.float32)
    step = canvas_step([4])
    logits = np.tanh(hidden @ head.T / 5) * np.float32(5)
    tally, noise = tallied(step, logits, 4, 4), drawn_noise(draw, 4, 600)
    picks = meant("pick", step, hidden, tally, noise, weights=[head], capacity=4, cap=5.0)
    ends = softmax(logits, 0.7).cumsum(-1)
    expected = (ends <= numbers(noise, [0])).sum(-1)
    np.testing.assert_array_equal(picks[:, 0], expected)


def test_tokens_are_drawn_as_often_as_they_are_likely() -> None:
    draws, vocabulary = 20_000, 515
    logits = np.random.default_rng(2).standard_normal(vocabulary).astype(np.float32) / 2
    step = canvas_step([draws], [CanvasStep(0.8, 21, 7, 0.1)])
    tally = tallied(canvas_step([1], [CanvasStep(0.8, 21, 7, 0.1)]), logits[None], 1, 1)
    noise = meant("noise", step, np.zeros((draws, 2), np.uint32), capacity=draws, vocabulary=vocabulary)
    picks = meant(
        "pick",
        step,
        np.ones((draws, 1), np.float32),
        np.repeat(tally, draws, 0),
        noise,
        weights=[logits[:, None]],
        capacity=draws,
        cap=0.0,
    )
    expected = softmax(logits, 0.8) * draws
    assert expected.min() > 3
    assert not surprising(np.bincount(picks[:, 0], minlength=vocabulary), expected)


@pytest.mark.parametrize("u", [2.0**-24, 1 - 2.0**-24])
def test_the_ends_of_chance_draw_tokens_that_are_possible(u: float) -> None:
    logits = np.full((1, 700), -np.inf, np.float32)
    logits[0, [300, 301, 520]] = [1.0, 2.0, -3.0]
    step = canvas_step([1])
    noise = np.array([[np.float32(u).view(np.uint32), 0]], np.uint32)
    picks = meant(
        "pick", step, *_picking(logits, step, noise), capacity=1, cap=0.0, weights=[operands(logits)[1]]
    )
    assert picks[0, 0] == (520 if u > 0.5 else 300)


@pytest.mark.parametrize("temperature", COLD)
@pytest.mark.parametrize("hair", HAIRS)
def test_the_colder_it_is_the_surer_is_the_likeliest_token_however_its_logit_was_rounded(
    temperature: float, hair: float
) -> None:
    draw = np.random.default_rng(8)
    logits = likeliest_by_far(draw, 40, 700)
    step = canvas_step([40], [CanvasStep(temperature, 1, 1, 0.1)])
    tally = tallied(step, logits + np.float32(hair), 40, 40)
    hidden, head = operands(logits)
    noise = drawn_noise(draw, 40, 700)
    picks = meant("pick", step, hidden, tally, noise, weights=[head], capacity=40, cap=0.0)
    np.testing.assert_array_equal(picks[:, 0], logits.argmax(-1))


def _picking(logits: np.ndarray, step: object, noise: np.ndarray) -> tuple[np.ndarray, ...]:
    return operands(logits)[0], tallied(step, logits, len(logits), len(logits)), noise


def test_a_greedy_step_takes_the_likeliest_token() -> None:
    logits = np.random.default_rng(3).standard_normal((5, 300)).astype(np.float32)
    step = canvas_step([5], [CanvasStep(0.7, 1, 1, 0.1, greedy=True)])
    given_ = _picking(logits, step, np.full((5, 2), 0x3F7FFFFF, np.uint32))
    picks = meant("pick", step, *given_, weights=[operands(logits)[1]], capacity=5, cap=0.0)
    np.testing.assert_array_equal(picks[:, 0], logits.argmax(-1))
    np.testing.assert_array_equal(picks[:, 1], logits.argmax(-1))


def test_logits_that_are_no_numbers_spoil_their_row_and_no_other() -> None:
    logits = np.random.default_rng(4).standard_normal((3, 600)).astype(np.float32)
    head = operands(logits)[1]
    logits[1, 400] = np.nan
    step = canvas_step([2, 1])
    tally = tallied(step, logits, 4, 2, 256)
    noise = drawn_noise(np.random.default_rng(5), 4, 600)
    picks = meant("pick", step, operands(logits)[0], tally, noise, weights=[head], capacity=2, cap=0.0)
    assert np.isnan(numbers(picks, [2, 3])).tolist() == [[False] * 2, [True] * 2, [False] * 2]
    assert picks[1, :2].tolist() == [400, 400]
    canvas = np.full((4, 4), NOTHING, np.uint32)
    standing = meant("progress", step, picks, canvas, capacity=2)
    assert standing[:, 1:].tolist() == [[2, 1, 0], [1, 0, 0]]
    assert np.isnan(numbers(standing, [0])[:, 0]).tolist() == [True, False]


@pytest.mark.parametrize("tile", [256, 768, 8192])
def test_the_soft_embedding_is_the_mean_of_the_table_by_the_weights(tile: int) -> None:
    draw = np.random.default_rng(6)
    logits = (4 * draw.standard_normal((3, 1000))).astype(np.float32)
    logits[:, 900] += 30  # so that what came before fades
    table = draw.standard_normal((1000, 24), np.float32)
    step = canvas_step([2, 1], places=[1, 0])
    soft = np.full((8, 24), np.nan, np.float32)  # what an earlier request left
    tally = empty_tally(8, 1000)
    for first in range(0, 1000, tile):
        part, rows = logits[:, first : first + tile], table[first : first + tile]
        tally = meant("tally", step, part, tally, first=first, capacity=4)
        soft = meant("blend", step, part, tally, soft, weights=[rows], first=first, capacity=4)
    shares = softmax(logits, 0.7)
    picks = np.zeros((3, 4), np.uint32)
    picks[:, 3] = shares.max(-1).astype(np.float32).view(np.uint32)
    found = meant("soften", step, picks, soft, capacity=4, scale=6.0)
    expected = 6 * shares @ table
    np.testing.assert_allclose(found[[4, 5, 0]], expected, atol=TOLERANCE * np.abs(expected).max())
    assert np.isnan(found[[1, 2, 3, 6, 7]]).all()
    np.testing.assert_array_equal(meant("recall", step, found, capacity=4), found[[4, 5, 0]])


def test_a_canvas_is_seated_in_the_rows_of_its_slot() -> None:
    step = canvas_step([2, 3], starts=[9, 4], places=[0, 1])
    canvas = np.arange(40, dtype=np.uint32).reshape(10, 4)
    found = meant("seat", step, canvas, capacity=5)
    # Positions 9 and 10 of place 0 lie in lines 4 and 0, 4 to 6 of place 1 in lines 9, 5 and 6.
    assert found[:, 0].tolist() == [16, 0, 36, 20, 24]
    np.testing.assert_array_equal(found[:, 1:], step.rows[:, 1:])


HUNDREDTHS = st.lists(st.integers(0, 30), min_size=1, max_size=20)


def accepted_by_hand(entropies: list[float], bound: float) -> list[int]:
    """As the published sampler does it: sorted, those whose predecessors sum to at most the bound."""
    kept, total = [], 0.0
    for position in sorted(range(len(entropies)), key=lambda position: (entropies[position], position)):
        if total <= bound:
            kept.append(position)
        total += entropies[position]
    return sorted(kept)


@given(st.lists(HUNDREDTHS, min_size=1, max_size=3), st.integers(0, 40))
def test_the_surest_positions_are_accepted_as_long_as_those_before_are_sure_enough(
    slots: list[list[int]], bound: int
) -> None:
    # 64ths, whose sums are exact in f32.
    entropies = [[one / 64 for one in slot] for slot in slots]
    step = canvas_step(
        [len(slot) for slot in slots],
        [CanvasStep(1.0, 0, 1, bound / 64)] * len(slots),
        starts=[3] * len(slots),
    )
    rows = len(step.rows)
    picks = np.zeros((rows, 4), np.uint32)
    picks[:, 0], picks[:, 1] = 1000 + np.arange(rows), 2000 + np.arange(rows)
    picks[:, 2] = np.concatenate([np.array(slot, np.float32) for slot in entropies]).view(np.uint32)
    noise = np.tile(np.array([[0, 3000]], np.uint32), (3 * 64, 1))
    canvas = np.full((3 * 64, 4), 7, np.uint32)
    found = meant("accept", step, picks, noise, canvas, capacity=64)
    begin = 0
    for slot, own in enumerate(entropies):
        mine = slice(slot * 64 + 3, slot * 64 + 3 + len(own))
        kept = accepted_by_hand(own, bound / 64)
        assert np.flatnonzero(found[mine, 1]).tolist() == kept
        tokens = [1000 + begin + at if at in kept else 3000 for at in range(len(own))]
        assert found[mine, 0].tolist() == tokens
        np.testing.assert_array_equal(found[mine, 2:], picks[begin : begin + len(own), 1:3])
        canvas[mine] = found[mine]
        begin += len(own)
    np.testing.assert_array_equal(found, canvas)  # and no other line


def test_progress_is_the_mean_entropy_and_what_changed_its_mind() -> None:
    step = canvas_step([3, 2], starts=[1, 0], places=[1, 0])
    picks = np.zeros((5, 4), np.uint32)
    picks[:, 1] = [4, 5, 6, 7, 8]
    picks[:, 2] = np.array([0.5, 0.25, 0.75, 1, 0], np.float32).view(np.uint32)
    canvas = np.full((8, 4), NOTHING, np.uint32)
    canvas[[5, 6, 7], 2] = [4, 9, 6]
    found = meant("progress", step, picks, canvas, capacity=4)
    assert numbers(found, [0])[:, 0].tolist() == [0.5, 0.5]
    assert found[:, 1:].tolist() == [[1, 0, 0], [2, 0, 0]]


RUNS = sorted(Path(__file__).parent.glob("goldens/diffusion*/run_*.npz"))


@pytest.mark.parametrize("path", RUNS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_canvas_of_every_recorded_step_is_what_the_published_sampler_made_of_it(path: Path) -> None:
    recorded = np.load(path)
    bound = json.loads(str(recorded["settings"]))["entropyBound"]
    steps, length = recorded["made"].shape
    # Each recorded step is a slot of one step.
    step = canvas_step([length] * steps, [CanvasStep(1.0, 0, 1, bound)] * steps)
    picks, noise = np.zeros((steps * length, 4), np.uint32), np.zeros((steps * length, 2), np.uint32)
    # Of what was sampled the record has what was accepted.
    picks[:, 0], picks[:, 1] = recorded["made"].reshape(-1), recorded["likeliest"].reshape(-1)
    picks[:, 2] = recorded["entropy"].astype(np.float32).reshape(-1).view(np.uint32)
    noise[:, 1] = recorded["token"].reshape(-1)
    canvas = np.full((steps * length, 4), NOTHING, np.uint32)
    found = meant("accept", step, picks, noise, canvas, capacity=length)
    np.testing.assert_array_equal(found[:, 1].reshape(steps, length), recorded["accepted"])
    np.testing.assert_array_equal(found[:, 0].reshape(steps, length), recorded["made"])
    means = numbers(meant("progress", step, picks, canvas, capacity=length), [0])[:, 0]
    np.testing.assert_allclose(means, recorded["entropy"].mean(-1), rtol=TOLERANCE)


def test_there_are_recorded_steps() -> None:
    assert RUNS
