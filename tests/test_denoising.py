"""Canvases on a scripted model: whatever company, room or cache a prompt meets, its answer is its own."""

import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from doppler_core.engine.request import Canvas, Delta, GenerateRequest
from doppler_core.errors import DeviceError, DeviceLostError, InputError, LimitError
from tests import canvas_fakes
from tests.canvas_fakes import (
    LENGTH,
    MAX_TOKENS,
    SIZE,
    STEPS,
    CanvasOpening,
    Recorded,
    Wishes,
    answer,
    opening,
    tokens_of,
)
from tests.causal_fakes import prompt
from tests.scripted_states import Size


@pytest.fixture
def opened(causal_tokenizer: Path) -> Iterator[CanvasOpening]:
    with opening(causal_tokenizer) as open_:
        yield open_


def shown(deltas: Sequence[Delta]) -> list[Canvas]:
    """The canvases of a stream, as the oracle has them."""
    return [replace(delta.canvas, text="") for delta in deltas if delta.canvas is not None]


@pytest.mark.parametrize("length", [1, 2, 5, 6, 7, 13, 40])
def test_a_prompt_of_any_length_is_answered_canvas_by_canvas_and_each_step_can_be_seen(
    opened: CanvasOpening, length: int
) -> None:
    model, executor = opened()
    ids = prompt(1, length)
    expected = answer(executor.size, ids, 20, Wishes(seed=3))
    deltas = list(model.submit(GenerateRequest(ids, max_tokens=20, seed=3, drafts=True)))
    assert shown(deltas) == [step for steps in expected for step in steps]
    assert [token for delta in deltas for token in delta.ids] == tokens_of(expected, 20)
    assert {len(steps) for steps in expected} != {STEPS}, "some canvas stopped early"


def test_a_stream_holds_each_canvas_once_it_is_settled(opened: CanvasOpening) -> None:
    model, executor = opened()
    ids = prompt(2, 9)
    deltas = list(model.submit(GenerateRequest(ids, max_tokens=17, seed=1)))
    assert len(deltas) == 4
    assert all(len(delta.ids) >= LENGTH - 3 for delta in deltas[:3]), (
        "but half a character waits for the next"
    )
    result = model.generate(ids, max_tokens=17, seed=1)
    assert "".join(delta.text for delta in deltas) == result.text
    assert list(result.ids) == tokens_of(answer(executor.size, ids, 17, Wishes(seed=1)), 17)


def test_drafts_are_read_back_only_for_who_wants_them(opened: CanvasOpening) -> None:
    model, executor = opened()
    ids = prompt(1, 4)
    model.generate(ids, max_tokens=3 * LENGTH, seed=0)
    assert executor.read == 3 * LENGTH
    model.generate(ids, max_tokens=3 * LENGTH, seed=0, drafts=True)
    steps = sum(map(len, answer(executor.size, ids, 3 * LENGTH)))
    assert executor.read == (3 + steps) * LENGTH


def test_canvases_of_several_requests_share_a_step_and_stay_their_own(opened: CanvasOpening) -> None:
    model, executor = opened(seconds=0.001)
    prompts = [prompt(number, length) for number, length in enumerate([3, 30, 1, 17, 8, 50, 2, 23])]
    wishes = [Wishes(seed=number, steps=1 + number % STEPS) for number in range(len(prompts))]
    handles = [
        model.submit(GenerateRequest(ids, max_tokens=22, seed=one.seed, steps=one.steps))
        for ids, one in zip(prompts, wishes, strict=True)
    ]
    for ids, one, handle in zip(prompts, wishes, handles, strict=True):
        assert list(handle.result(10).ids) == tokens_of(answer(executor.size, ids, 22, one), 22)
    together = [(rows, slots) for phase, rows, slots, _ in executor.log if phase == "denoise"]
    assert max(slots for _, slots in together) == executor.size.slots
    assert all(rows == slots * LENGTH for rows, slots in together)


@pytest.mark.parametrize("size", [Size(chunk=9, slots=1, snapshots=0), Size(context=64, window=1, chunk=5),
                                  Size(context=64, window=70), Size(window=3, chunk=16, slots=7)])  # fmt: skip
def test_neither_chunk_nor_window_nor_slots_change_an_answer(opened: CanvasOpening, size: Size) -> None:
    model, executor = opened(size)
    for round_ in range(3):
        prompts = [prompt(number, 5 + 7 * number) for number in range(6)]
        handles = [model.submit(GenerateRequest(ids, max_tokens=9 + round_, seed=2)) for ids in prompts]
        for ids, handle in zip(prompts, handles, strict=True):
            expected = answer(executor.size, ids, 9 + round_, Wishes(seed=2))
            assert list(handle.result(10).ids) == tokens_of(expected, 9 + round_)


@pytest.mark.parametrize(
    ("asked", "wishes"),
    [
        ({"seed": 5}, Wishes(seed=5)),
        ({"seed": -1}, Wishes(seed=2**64 - 1)),
        ({"seed": 5, "steps": 1}, Wishes(seed=5, steps=1)),
        ({"seed": 5, "steps": 4}, Wishes(seed=5, steps=4)),
        ({"seed": 5, "temperature": 1.0}, Wishes(seed=5)),
        ({"seed": 5, "temperature": 0.25}, Wishes(seed=5, scale=0.25)),
        ({"seed": 5, "temperature": 0}, Wishes(seed=5, greedy=True)),
        ({"seed": 5, "temperature": 1e-30}, Wishes(seed=5, greedy=True)),
        ({"noise": Recorded(1)}, Wishes(noise=Recorded(1))),
        ({"noise": Recorded(1), "temperature": 0.0, "steps": 3}, Wishes(noise=Recorded(1), greedy=True, steps=3)),
    ],
)  # fmt: skip
def test_a_request_says_how_its_canvases_are_drawn(
    opened: CanvasOpening, asked: dict[str, object], wishes: Wishes
) -> None:
    model, executor = opened()
    ids = prompt(7, 11)
    deltas = list(model.submit(GenerateRequest(ids, max_tokens=11, drafts=True, **asked)))  # type: ignore[arg-type]
    assert shown(deltas) == [step for steps in answer(executor.size, ids, 11, wishes) for step in steps]


def test_no_seed_is_another_seed_each_time(opened: CanvasOpening) -> None:
    model, _ = opened()
    drafts = [
        shown(list(model.submit(GenerateRequest(prompt(1, 3), max_tokens=1, drafts=True)))) for _ in range(2)
    ]
    assert drafts[0] != drafts[1]


def test_recorded_noise_and_seeds_share_a_step(opened: CanvasOpening) -> None:
    model, executor = opened(seconds=0.001)
    cases = [Wishes(seed=number) if number % 2 else Wishes(noise=Recorded(number)) for number in range(8)]
    handles = [
        model.submit(
            GenerateRequest(
                prompt(number, 6),
                max_tokens=13,
                seed=one.seed if one.noise is None else None,
                noise=one.noise,
            )
        )
        for number, one in enumerate(cases)
    ]
    for number, (one, handle) in enumerate(zip(cases, handles, strict=True)):
        expected = answer(executor.size, prompt(number, 6), 13, one)
        assert list(handle.result(10).ids) == tokens_of(expected, 13)
    mixed = [slots for phase, _, slots, active in executor.log if phase == "denoise" and not active]
    assert max(mixed) > 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"first": lambda canvas: Recorded(1, LENGTH + 1).first(0)}, "noise.first: expected 5 token ids"),
        ({"first": lambda canvas: [300] * LENGTH}, "noise.first: expected 5 token ids, 0 to 299"),
        ({"first": lambda canvas: [0.5] * LENGTH}, "noise.first"),
        ({"step": lambda canvas, step: ([1.0] * LENGTH, [1] * LENGTH)}, "noise.step: expected 5 numbers from 0 to 1"),
        ({"step": lambda canvas, step: ([0.5] * LENGTH, [-1] * LENGTH)}, "noise.step: expected 5 token ids"),
        ({"step": lambda canvas, step: 1 / 0}, "division"),
    ],
)  # fmt: skip
def test_noise_that_is_none_fails_its_own_request(
    opened: CanvasOpening, change: dict[str, object], says: str
) -> None:
    model, executor = opened(seconds=0.001)
    noise = Recorded(1)
    for name, function in change.items():
        setattr(noise, name, function)
    ids = prompt(3, 5)
    good = model.submit(GenerateRequest(ids, max_tokens=9, seed=4))
    with pytest.raises((InputError, ZeroDivisionError), match=says):
        model.generate(ids, max_tokens=9, noise=noise)
    assert list(good.result(10).ids) == tokens_of(answer(executor.size, ids, 9, Wishes(seed=4)), 9)


@pytest.mark.parametrize("most", [1, 4, 5, 6, 10, 23])
def test_max_tokens_is_kept_to_the_token(opened: CanvasOpening, most: int) -> None:
    model, executor = opened()
    ids = prompt(5, 10)
    result = model.generate(ids, max_tokens=most, seed=0)
    expected = answer(executor.size, ids, most)
    assert list(result.ids) == tokens_of(expected, most)
    assert (result.finish_reason, result.usage.completion_tokens) == ("length", most)
    steps = sum(map(len, expected))
    assert (result.usage.denoising_steps, result.usage.tokens_per_forward) == (steps, most / steps)
    assert sum(phase == "denoise" for phase, *_ in executor.log) == steps


def test_a_request_for_no_tokens_encodes_its_prompt_and_no_more(opened: CanvasOpening) -> None:
    model, executor = opened()
    result = model.generate(prompt(5, 10), max_tokens=0)
    assert (result.ids, result.finish_reason, result.usage.tokens_per_forward) == ((), "length", 0.0)
    assert {phase for phase, *_ in executor.log} == {"encode"}


def test_without_max_tokens_there_are_as_many_as_the_manifest_says(opened: CanvasOpening) -> None:
    model, executor = opened()
    assert len(model.generate(prompt(5, 10), seed=0).ids) == MAX_TOKENS
    assert len(model.generate(prompt(5, executor.size.context - 3), seed=0).ids) == 3


@pytest.mark.parametrize("left", [0, 1, 4, 5, 6, 13])
def test_the_last_canvas_is_as_long_as_the_context_has_room_for(opened: CanvasOpening, left: int) -> None:
    model, executor = opened()
    ids = prompt(6, executor.size.context - left)
    result = model.generate(ids, max_tokens=50, seed=0)
    assert list(result.ids) == tokens_of(answer(executor.size, ids, left), left)
    assert (len(result.ids), result.finish_reason) == (left, "length")


def test_nothing_follows_the_first_end_in_a_canvas(opened: CanvasOpening) -> None:
    model, executor = opened()
    ids = prompt(4, 6)
    expected = tokens_of(answer(executor.size, ids, 30), 30)
    end = expected[LENGTH + 2]
    assert end not in expected[: LENGTH + 2]
    deltas = list(model.submit(GenerateRequest(ids, max_tokens=30, seed=0, stop_ids=(end,))))
    assert [token for delta in deltas for token in delta.ids] == expected[: LENGTH + 2]
    usage = deltas[-1].usage
    assert usage is not None
    assert usage.completion_tokens == LENGTH + 2
    assert usage.tokens_per_forward == (LENGTH + 3) / usage.denoising_steps, "the end token counts"
    encoded = sum(rows for phase, rows, *_ in executor.log if phase == "encode")
    assert encoded == len(ids) + LENGTH, "the canvas with the end in it is followed by none"


def test_a_draft_spells_what_comes_before_the_first_end(opened: CanvasOpening) -> None:
    model, executor = opened()
    ids = prompt(4, 6)
    steps = answer(executor.size, ids, 1)[0]
    end = steps[-1].ids[2]
    deltas = list(model.submit(GenerateRequest(ids, max_tokens=5, seed=0, stop_ids=(end,), drafts=True)))
    last = deltas[len(steps) - 1].canvas
    assert last is not None
    assert last.done
    assert len(last.ids) == LENGTH
    assert last.text == deltas[-1].text


def test_a_canvas_whose_logits_are_no_numbers_is_an_error_of_its_request_and_not_kept(
    opened: CanvasOpening,
) -> None:
    ids, other = prompt(9, 12), prompt(8, 12)
    model, executor = opened(poison=ids[:4], seconds=0.001)
    good = model.submit(GenerateRequest(other, max_tokens=9, seed=4))
    with pytest.raises(DeviceError, match="not numbers"):
        model.generate(ids, max_tokens=5)
    assert list(good.result(10).ids) == tokens_of(answer(executor.size, other, 9, Wishes(seed=4)), 9)
    executor.poison = ()
    result = model.generate(ids, max_tokens=5, seed=0)
    assert list(result.ids) == tokens_of(answer(executor.size, ids, 5), 5)
    assert result.usage.cached_tokens == 0


def test_what_was_encoded_is_encoded_once_and_never_copied_by_a_step(opened: CanvasOpening) -> None:
    model, executor = opened()
    ids = prompt(1, 30)
    first = model.generate(ids, max_tokens=3 * LENGTH, seed=0)
    assert executor.copies <= 1, (
        "a snapshot of the sliding layer for the prompt's end, and nothing for any step"
    )
    mark = len(executor.log)
    again = model.generate(ids, max_tokens=3 * LENGTH, seed=0)
    assert (again.ids, again.usage.cached_tokens) == (first.ids, 29)
    follow_up = (*ids, *first.ids, *prompt(2, 4))
    result = model.generate(follow_up, max_tokens=LENGTH, seed=0)
    assert list(result.ids) == tokens_of(answer(executor.size, follow_up, LENGTH), LENGTH)
    assert result.usage.cached_tokens == len(ids) + 2 * LENGTH, "its last canvas was never encoded"
    encoded = [rows for phase, rows, *_ in executor.log[mark:] if phase == "encode"]
    assert sum(encoded) == 1 + 2 * LENGTH + LENGTH + 4


def test_a_cancelled_request_takes_no_further_step(opened: CanvasOpening) -> None:
    model, executor = opened(seconds=0.01)
    handle = model.submit(GenerateRequest(prompt(1, 4), max_tokens=80, seed=0, drafts=True))
    next(iter(handle))
    handle.cancel()
    last = list(handle)[-1]
    assert last.finish_reason == "cancelled"
    assert last.usage is not None
    assert last.usage.denoising_steps < STEPS
    steps = len(executor.log)
    ids = prompt(2, 4)
    assert list(model.generate(ids, max_tokens=5, seed=0).ids) == tokens_of(answer(SIZE, ids, 5), 5)
    assert len(executor.log) <= steps + 1 + STEPS


def test_a_long_prompt_lets_canvases_go_on(opened: CanvasOpening) -> None:
    """At 2 ms a row, 250 rows in one step would keep the other request waiting for half a second."""
    size = Size(context=320, chunk=300, slots=2, snapshots=1)
    model, executor = opened(size, row_seconds=0.002)
    talking = iter(model.submit(GenerateRequest(prompt(1, 10), max_tokens=300, drafts=True)))
    next(talking)
    mark = len(executor.log)
    model.generate(prompt(2, 250), max_tokens=1)
    encoded = [rows for phase, rows, *_ in executor.log[mark:] if phase == "encode"]
    assert len(encoded) >= 3
    assert max(encoded) < 150
    talking.close()  # type: ignore[attr-defined]


def test_a_lost_device_fails_those_under_way_and_what_it_held_is_forgotten(opened: CanvasOpening) -> None:
    model, executor = opened(seconds=0.002)
    ids = prompt(8, 12)
    handles = [model.submit(GenerateRequest(ids, max_tokens=80, drafts=True)) for _ in range(6)]
    next(iter(handles[0]))
    executor.fault = DeviceLostError("gone")
    for handle in handles[1:]:
        with pytest.raises(DeviceLostError):
            handle.result(5)
    result = model.generate(ids, max_tokens=10, seed=0)
    assert list(result.ids) == tokens_of(answer(executor.size, ids, 10), 10)
    assert result.usage.cached_tokens == 0


def test_a_step_without_memory_is_a_limit(opened: CanvasOpening) -> None:
    model, executor = opened()
    executor.fault = MemoryError("Unable to allocate 9 GiB")
    with pytest.raises(LimitError, match="fewer slots"):
        model.generate(prompt(1, 2), max_tokens=2)


def test_warming_up_runs_both_phases_and_disturbs_nobody(opened: CanvasOpening) -> None:
    model, executor = opened()
    model.warmup()
    assert {phase for phase, *_ in executor.log} == {"encode", "denoise"}
    ids = prompt(3, 14)
    assert list(model.generate(ids, max_tokens=5, seed=0).ids) == tokens_of(answer(executor.size, ids, 5), 5)
    runs = len(executor.log)
    model.warmup()
    assert len(executor.log) == runs


@pytest.mark.parametrize(("context", "length"), [(1, LENGTH), (2, LENGTH), (96, 1), (96, 2)])
def test_warming_up_takes_no_more_than_a_context_or_a_canvas_has(
    opened: CanvasOpening, monkeypatch: pytest.MonkeyPatch, context: int, length: int
) -> None:
    monkeypatch.setattr(canvas_fakes, "LENGTH", length)
    model, executor = opened(Size(context=context, window=1, chunk=1))
    model.warmup()
    ids = prompt(1, 1)
    expected = tokens_of(answer(executor.size, ids, 3), 3)
    assert list(model.generate(ids, max_tokens=3, seed=0).ids) == expected


def test_two_hundred_requests_of_eight_threads_with_cancels(opened: CanvasOpening) -> None:
    """No wrong token, no place that stays taken, and answers of those that others cancelled beside."""
    model, executor = opened()
    shared = [prompt(number, 30) for number in range(5)]

    def ask(number: int) -> None:
        numbers = random.Random(number)
        ids = (*shared[number % 5][: numbers.randrange(1, 30)], *prompt(number, numbers.randrange(1, 20)))
        count = numbers.randrange(1, 25)
        one = Wishes(seed=number, steps=numbers.randrange(1, STEPS + 1))
        handle = model.submit(GenerateRequest(ids, max_tokens=count, seed=one.seed, steps=one.steps))
        expected = tokens_of(answer(executor.size, ids, count, one), count)
        if number % 3:
            assert list(handle.result(60).ids) == expected
            return
        seen: list[int] = []
        for delta in handle:
            seen += delta.ids
            if len(seen) >= count // 2:
                handle.cancel()
        assert seen == expected[: len(seen)]
        assert handle.cancelled() or seen == expected

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(200)))
    places = model._driver._denoiser._places  # type: ignore[attr-defined]
    assert model.generate(prompt(1, 3), max_tokens=1).ids
    assert all(slot.run is None or slot.run.job.done() for slot in places.slots)
