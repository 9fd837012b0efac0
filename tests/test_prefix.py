"""Prefix reuse on a scripted model: what a place holds is used again where it is whole, and only there."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doppler_core.engine.choice import Choice
from doppler_core.engine.decoding import Decoder, Loop
from doppler_core.engine.generation import Ending, GenerateJob
from doppler_core.engine.prefix import Places
from doppler_core.engine.reply_reader import ReplyReader
from doppler_core.engine.request import GenerateResult
from doppler_core.engine.slots import common_length, layout
from doppler_core.text.tokenizer import Tokenizer
from tests.causal_fakes import BEGIN, VOCABULARY, ScriptedExecutor, Size, answer, plan, write_tokenizer

SIZE = Size(context=200, window=8, chunk=6, slots=3, snapshots=3)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer(write_tokenizer(tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"), VOCABULARY)


@dataclass
class Model:
    """A decoder on a scripted executor, driven by hand."""

    tokenizer: Tokenizer
    size: Size = SIZE
    most_steps: int = 4

    def __post_init__(self) -> None:
        self.executor = ScriptedExecutor(self.size)
        made = plan(self.size)
        self.places = Places(self.executor, layout(made, self.size.context), self.size.slots)  # type: ignore[arg-type]
        self.decoder = Decoder(self.executor, made.states(), self.places, Loop(self.most_steps, 2))  # type: ignore[arg-type]

    def job(self, ids: Sequence[int], count: int, end: int | None = None) -> GenerateJob:
        ending = Ending(count, frozenset() if end is None else frozenset((end,)))
        return GenerateJob(ids, Choice(), ending, None, ReplyReader(self.tokenizer), 0.0)

    def ask(self, ids: Sequence[int], count: int, end: int | None = None) -> GenerateResult:
        """One request from begin to end, its tokens checked."""
        job = self.job(ids, count, end)
        while not job.done():
            self.decoder.step([job])
        result = job.result()
        assert list(result.ids) == answer(self.size, ids, count)[: len(result.ids)]
        return result


@pytest.fixture
def model(tokenizer: Tokenizer) -> Model:
    return Model(tokenizer)


def text(seed: int, length: int) -> list[int]:
    numbers = random.Random(seed)
    return [BEGIN, *(numbers.randrange(3, VOCABULARY) for _ in range(length - 1))]


def test_a_conversation_goes_on_in_place(model: Model) -> None:
    """All but the last token made, which no step has fed, is there already."""
    ids = text(1, 40)
    for _ in range(3):
        first = model.ask(ids, 15)
        ids = [*ids, *first.ids, 7, 8, 9]
        second = model.ask(ids, 1)
        assert second.usage.cached_tokens == len(ids) - 4
        ids = [*ids, *second.ids, 5]


def test_an_end_within_a_group_is_within_the_rings_slack(model: Model) -> None:
    ids = text(2, 30)
    expected = answer(SIZE, ids, 9)
    first = model.ask(ids, 60, end=expected[8])
    following = [*ids, *first.ids, 250, 7]
    assert model.ask(following, 3).usage.cached_tokens >= len(ids) + 7


def test_the_same_prompt_again_runs_its_last_token_only(model: Model) -> None:
    ids = text(3, 50)
    model.ask(ids, 3)
    again = model.ask(ids, 3)
    assert again.usage.cached_tokens == 49
    assert model.executor.copies == 0


def test_a_prompt_is_found_again_after_a_long_answer_by_its_snapshot(model: Model) -> None:
    """40 tokens made have overwritten the ring of 14; the copy made before that is put back."""
    ids = text(4, 50)
    model.ask(ids, 40)
    again = model.ask([*ids, 5, 6], 40)
    assert again.usage.cached_tokens == 50
    assert model.ask(ids, 2).usage.cached_tokens == 49


def test_a_short_answer_needs_no_snapshot(model: Model) -> None:
    model.ask(text(5, 50), 5)
    assert model.executor.copies == 0


def test_without_a_snapshot_an_overwritten_ring_means_the_whole_prompt(tokenizer: Tokenizer) -> None:
    model = Model(tokenizer, Size(context=200, slots=3, snapshots=0))
    ids = text(6, 50)
    model.ask(ids, 40)
    assert model.ask(ids, 40).usage.cached_tokens == 0


def test_a_prompt_that_shares_only_the_begin_copies_it_and_leaves_the_conversation_alone(
    model: Model,
) -> None:
    system = text(7, 20)
    long = [*system, *text(8, 60)[1:]]
    model.ask(system, 0)
    model.ask(long, 2)
    assert model.ask([*system, *text(9, 20)[1:]], 2).usage.cached_tokens == 20
    assert model.ask([*long, 5], 2).usage.cached_tokens == len(long)


def test_a_begin_of_a_few_tokens_is_not_worth_a_copy(model: Model) -> None:
    model.ask(text(7, 12), 0)
    model.ask([*text(7, 12), *text(8, 60)[1:]], 2)
    copies = model.executor.copies
    assert model.ask([*text(7, 12), 9, 9], 2).usage.cached_tokens == 0
    assert model.executor.copies == copies


def test_a_begin_is_copied_from_a_slot_in_use(tokenizer: Tokenizer) -> None:
    model = Model(tokenizer, Size(context=200, window=40, chunk=30, slots=2, snapshots=2))
    system = text(10, 30)
    busy, other = model.job([*system, 11], 90), model.job([*system, 12, 13], 5)
    model.decoder.step([busy])
    while not other.done():
        model.decoder.step([busy, other])
    assert not busy.done()
    assert other.result().usage.cached_tokens == 30
    assert list(other.result().ids) == answer(model.size, [*system, 12, 13], 5)
    while not busy.done():
        model.decoder.step([busy])
    assert list(busy.result().ids) == answer(model.size, [*system, 11], 90)


def test_a_request_for_no_tokens_adds_no_row_to_the_steps_of_others(model: Model) -> None:
    jobs = [model.job(text(12, 3), 0), model.job(text(13, 60), 1)]
    while under_way := [job for job in jobs if not job.done()]:
        model.decoder.step(under_way)
    assert sum(rows for _, rows, *_ in model.executor.log) == 63


def test_the_least_recently_used_place_is_taken(model: Model) -> None:
    texts = [text(20 + number, 30) for number in range(4)]
    for one in texts:
        model.ask(one, 2)
    cached = [model.ask(one, 2).usage.cached_tokens for one in reversed(texts)]
    assert cached == [29, 29, 29, 0]


def test_a_cancelled_answer_leaves_what_it_made(model: Model) -> None:
    ids = text(11, 20)
    job = model.job(ids, 100)
    while not job.news():
        model.decoder.step([job])
    job.cancel()
    made = list(job.result().ids)
    following = [*ids, *made, 9]
    assert model.ask(following, 5).usage.cached_tokens >= len(ids) + len(made) - 1


@given(first=st.lists(st.integers(0, 3)), second=st.lists(st.integers(0, 3)))
def test_the_common_length_is_that_of_the_longest_equal_begin(first: list[int], second: list[int]) -> None:
    length = common_length(first, second)
    assert first[:length] == second[:length]
    assert first[: length + 1] != second[: length + 1] or length == min(len(first), len(second))


@st.composite
def conversations(draw: st.DrawFn) -> list[tuple[list[int], int, int, bool]]:
    """Requests that share begins of any length: (prompt, tokens, steps alone before the next one comes, given up)."""
    numbers = draw(st.lists(st.integers(3, 6), min_size=60, max_size=60))
    requests = []
    for _ in range(draw(st.integers(1, 12))):
        shared = draw(st.integers(0, 59))
        tail = draw(st.lists(st.integers(3, 6), max_size=25))
        requests.append(
            (
                [BEGIN, *numbers[:shared], *tail],
                draw(st.integers(0, 30)),
                draw(st.integers(0, 9)),
                draw(st.booleans()),
            )
        )
    return requests


@settings(max_examples=60)
@given(
    requests=conversations(),
    size=st.builds(
        Size,
        context=st.sampled_from([120, 150]),
        window=st.integers(1, 12),
        chunk=st.integers(4, 20),
        slots=st.integers(1, 4),
        snapshots=st.integers(0, 3),
    ),
    most_steps=st.sampled_from([1, 3, 8]),
)
def test_any_requests_in_any_company_get_the_tokens_they_get_alone(
    tokenizer: Tokenizer, requests: list[tuple[list[int], int, int, bool]], size: Size, most_steps: int
) -> None:
    model = Model(tokenizer, size, most_steps)
    jobs: list[GenerateJob] = []

    def step() -> None:
        if under_way := [job for job in jobs if not job.done()]:
            model.decoder.step(under_way)

    for ids, count, steps, given_up in requests:
        jobs.append(model.job(ids, count))
        for _ in range(steps):
            step()
        if given_up:
            jobs[-1].cancel()
    while not all(job.done() for job in jobs):
        step()
    for job in jobs:
        made = list(job.result().ids)
        assert made == answer(size, job.ids, len(made))
        assert len(made) == job.limit or job.result().finish_reason == "cancelled"
