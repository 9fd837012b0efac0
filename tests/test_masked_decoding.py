"""Masks on a scripted model: made while the step runs, tokens skipped that leave no choice, and nobody else the wiser."""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from doppler_core.engine.request import GenerateRequest
from doppler_core.errors import InputError
from doppler_core.plan.sampling import Sampling
from tests.causal_fakes import (
    END,
    FIRST_WORD,
    MASK_WORDS,
    VOCABULARY,
    DecodeLoop,
    Opening,
    Size,
    answer,
    opening,
    prompt,
)

FREE: frozenset[int] = frozenset(range(50, VOCABULARY))
FORM = [
    FREE,
    {60},
    {61},
    {62},
    FREE,
    FREE,
    {63},
    FREE,
    {64},
    {65},
    {66},
    {67},
    {68},
    {69},
    {70},
    {71},
    {72},
    FREE,
]
BEGUN = [{80}, {81}, {82}, *FORM]


def words_of(tokens: Sequence[int]) -> npt.NDArray[np.uint32]:
    bits = np.zeros(32 * MASK_WORDS, np.uint8)
    bits[list(tokens)] = 1
    return np.packbits(bits, bitorder="little").view(np.uint32)


class Form:
    """Allows in each place some tokens, then the end. It tells no tokens that must come."""

    def __init__(self, places: Sequence[Any] = FORM) -> None:
        self.places = [*places, {END}]
        self.at = 0
        self.asked: list[int] = []

    def words(self) -> npt.NDArray[np.uint32]:
        self.asked.append(self.at)
        return words_of(sorted(self.places[self.at]))

    def accept(self, token: int) -> None:
        assert token in self.places[self.at]
        self.at += 1

    @property
    def stopped(self) -> bool:
        return False


class Forcing(Form):
    """The same, and tells them."""

    def forced(self) -> list[int]:
        found = []
        for place in self.places[self.at :]:
            if len(place) > 1:
                break
            found += place
        return found


SIZES = [Size(), Size(context=96, window=3, chunk=4), Size(window=5, chunk=16, slots=1, snapshots=0)]


@pytest.mark.parametrize("size", SIZES, ids=["plain", "short ring", "one slot"])
@pytest.mark.parametrize("places", [FORM, BEGUN, BEGUN[:3]], ids=["free first", "forced first", "all forced"])
def test_skipped_tokens_change_nothing_but_the_steps(opened: Opening, size: Size, places: Any) -> None:
    model, executor = opened(size)
    for seed, length in ((1, 1), (2, 3), (3, 17)):
        ids = prompt(seed, length)
        results, steps = [], []
        for kind in (Form, Forcing):
            executor.log.clear()
            results.append(model.generate(ids, max_tokens=60, mask=lambda kind=kind: kind(places)))
            steps.append(len(executor.log))
        assert results[0].ids == results[1].ids
        assert (results[1].finish_reason, results[1].stop) == ("stop", END)
        assert steps[1] < steps[0]
        assert len(results[0].ids) == len(places)


def test_a_token_that_is_not_skipped_is_chosen_after_those_that_are(opened: Opening) -> None:
    """The model sees what was skipped: its next token is that of the whole text."""
    model, executor = opened()
    ids = prompt(4, 9)
    made = model.generate(
        ids, max_tokens=30, mask=lambda: Forcing([{60}, {61}, {62}, set(range(VOCABULARY))])
    ).ids
    assert list(made[:3]) == [60, 61, 62]
    assert made[3] == answer(executor.size, [*ids, 60, 61, 62], 1, Sampling(masked=True))[0]


def test_masked_requests_and_others_keep_their_own_tokens_in_company(opened: Opening) -> None:
    model, executor = opened()
    alone = {seed: model.generate(prompt(seed, 5 + seed), max_tokens=40, mask=Form).ids for seed in range(3)}
    requests = []
    for seed in range(9):
        kind = (Form, Forcing, None)[seed % 3]
        requests.append(GenerateRequest(prompt(seed // 3, 5 + seed // 3), max_tokens=40, mask=kind))
    handles = [model.submit(one) for one in requests]
    for request, handle in zip(requests, handles, strict=True):
        if request.mask is None:
            assert list(handle.result(10).ids) == answer(executor.size, request.prompt, 40)  # type: ignore[arg-type]
        else:
            seed = next(seed for seed in alone if prompt(seed, 5 + seed) == request.prompt)
            assert handle.result(10).ids == alone[seed]
    assert max(slots for _, _, slots, _, _ in executor.log) == executor.size.slots


def test_what_is_kept_of_a_masked_answer_serves_the_next_prompt(opened: Opening) -> None:
    model, executor = opened()
    ids = prompt(5, 12)
    first = model.generate(ids, max_tokens=40, mask=Forcing)
    longer = (*ids, *first.ids, 77, 78)
    result = model.generate(longer, max_tokens=9)
    assert list(result.ids) == answer(executor.size, longer, 9)
    assert result.usage.cached_tokens >= len(ids) + len(first.ids) - 1


@pytest.mark.parametrize("limit", range(1, 9))
def test_skipped_tokens_count_for_the_limit(opened: Opening, limit: int) -> None:
    model, _ = opened()
    result = model.generate(prompt(1, 6), max_tokens=limit, mask=lambda: Forcing(BEGUN))
    assert (len(result.ids), result.finish_reason) == (limit, "length")
    assert result.usage.completion_tokens == limit


def test_a_stop_string_within_skipped_tokens_ends_the_text_there(opened: Opening) -> None:
    model, executor = opened()
    words = [{FIRST_WORD + number} for number in range(6)]
    result = model.generate(prompt(1, 6), max_tokens=30, stop="w2", mask=lambda: Forcing(words))
    assert (result.text, result.stop) == (" w0 w1 ", "w2")
    assert list(result.ids) == [FIRST_WORD, FIRST_WORD + 1, FIRST_WORD + 2]
    assert executor.log == [], "there was nothing to choose"


def test_skipped_tokens_come_as_deltas(opened: Opening) -> None:
    model, _ = opened()
    words = [{FIRST_WORD + number} for number in range(6)]
    deltas = list(model.submit(GenerateRequest(prompt(1, 6), mask=lambda: Forcing(words))))
    assert [delta.text for delta in deltas] == [*(f" w{number}" for number in range(6)), ""]


@pytest.mark.parametrize(
    "asked",
    [{"logprobs": 2}, {"repetition_penalty": 1.3}, {"presence_penalty": 0.5}, {"logit_bias": {60: 1.0}}],
    ids=["logprobs", "repetition", "presence", "bias"],
)
def test_no_token_is_skipped_that_has_to_be_weighed_or_counted(opened: Opening, asked: Any) -> None:
    model, executor = opened()
    result = model.generate(prompt(1, 6), max_tokens=30, mask=Forcing, **asked)
    assert len(executor.log) == 1 + len(FORM)
    assert result.ids == model.generate(prompt(1, 6), max_tokens=30, mask=Form, **asked).ids
    assert len(result.logprobs) == (len(FORM) if "logprobs" in asked else 0)


def test_a_mask_is_made_while_its_step_runs(opened: Opening) -> None:
    model, executor = opened()
    seen: list[bool] = []

    class Watched(Form):
        def words(self) -> npt.NDArray[np.uint32]:
            seen.append(executor.under_way)
            return super().words()

    model.generate(prompt(1, 6), max_tokens=30, mask=Watched)
    assert seen == [True] * (len(FORM) + 1)


def test_a_mask_that_says_the_text_is_whole_ends_it_without_an_end_token(opened: Opening) -> None:
    model, executor = opened()

    class Whole(Form):
        @property
        def stopped(self) -> bool:
            return self.at == 4

    result = model.generate(prompt(1, 6), max_tokens=30, mask=Whole, ignore_eos=True)
    assert (len(result.ids), result.finish_reason, result.stop) == (4, "stop", None)
    assert len(executor.log) == 4


@pytest.mark.parametrize("forced", [None, "abc", [-1], [VOCABULARY], [1.5], [True, "x"]], ids=str)
def test_what_is_no_token_to_skip_is_an_error_of_its_request(opened: Opening, forced: Any) -> None:
    model, executor = opened()

    class Wrong(Form):
        def forced(self) -> Any:
            return forced if self.at == 2 else []

    other = model.submit(GenerateRequest(prompt(3, 8), max_tokens=30))
    with pytest.raises(InputError, match=r"mask.forced\(\) is .*: expected token ids, 0 to 299"):
        model.generate(prompt(1, 6), max_tokens=30, mask=lambda: Wrong([FREE] * 9))
    assert list(other.result(10).ids) == answer(executor.size, prompt(3, 8), 30)


def test_a_request_for_no_tokens_skips_none(opened: Opening) -> None:
    model, _ = opened()
    result = model.generate(prompt(1, 6), max_tokens=0, mask=lambda: Forcing(BEGUN))
    assert (result.ids, result.finish_reason) == ((), "length")


def test_the_prompt_takes_its_time_also_where_the_first_token_needs_none(opened: Opening) -> None:
    model, _ = opened(seconds=0.02)
    times = model.generate(
        prompt(1, 30), max_tokens=6, mask=lambda: Forcing([*BEGUN[:3], FREE, FREE])
    ).timings
    # Five chunks of six rows each; the three skipped tokens are a part of the fifth or of one more.
    assert times.prefill >= 0.1
    assert times.first_token < times.queue + times.prefill
    assert times.decode >= 0.02


def limited_answer(size: Size, ids: Sequence[int], places: Sequence[Any]) -> list[int]:
    """What a form makes of the model, from nothing but the ids."""
    made: list[int] = []
    for place in places:
        allowed = sorted(place)
        made.append(allowed[answer(size, [*ids, *made], 1, Sampling(masked=True))[0] % len(allowed)])
    return made


PLACES = st.lists(st.one_of(st.just(FREE), st.integers(3, 299).map(lambda token: {token})), min_size=1, max_size=20)  # fmt: skip


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    requests=st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 40), st.none() | PLACES), min_size=1, max_size=7
    ),
    size=st.builds(
        Size,
        context=st.sampled_from([70, 100]),
        window=st.integers(1, 12),
        chunk=st.integers(4, 20),
        slots=st.integers(1, 4),
        snapshots=st.integers(0, 3),
    ),
    loop=st.builds(DecodeLoop, st.sampled_from([1, 3, 8])),
)
def test_any_forms_in_any_company_get_what_they_get_alone(
    causal_tokenizer: Path, requests: list[tuple[int, int, Any]], size: Size, loop: DecodeLoop
) -> None:
    """Prompts that begin alike among them, so that places are shared, gone on from, and copied."""
    with opening(causal_tokenizer) as open_:
        model, _ = open_(size, loop)
        handles = []
        for seed, length, places in requests:
            mask = None if places is None else partial(Forcing, places)
            handles.append(model.submit(GenerateRequest(prompt(seed, length), max_tokens=20, mask=mask)))
        for (seed, length, places), handle in zip(requests, handles, strict=True):
            ids = prompt(seed, length)
            wanted = answer(size, ids, 20) if places is None else limited_answer(size, ids, places)
            assert list(handle.result(20).ids) == wanted[:20]


def test_requests_that_all_end_before_a_step_leave_the_engine_well(opened: Opening) -> None:
    model, executor = opened(loop=DecodeLoop(8, 8))
    words = [{FIRST_WORD + number} for number in range(6)]
    handles = [
        model.submit(GenerateRequest(prompt(seed, 6), mask=lambda: Forcing(words))) for seed in range(9)
    ]
    assert {handle.result(10).text for handle in handles} == {" w0 w1 w2 w3 w4 w5"}
    begin = time.perf_counter()
    assert list(model.generate(prompt(3, 8), max_tokens=5).ids) == answer(executor.size, prompt(3, 8), 5)
    assert time.perf_counter() - begin < 5
