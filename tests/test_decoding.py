"""Decoding on a scripted model: whatever company, chunk, group or cache a prompt meets, its answer is its own."""

import gc
import random
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from doppler_core.engine.request import GenerateRequest
from doppler_core.errors import DeviceLostError, LimitError
from doppler_core.plan.sampling import Sampling
from tests.causal_fakes import (
    VOCABULARY,
    DecodeLoop,
    Opening,
    Size,
    answer,
    prompt,
)


@pytest.mark.parametrize("runs_ahead", [True, False])
@pytest.mark.parametrize("length", [1, 2, 5, 6, 7, 13, 40])
def test_a_prompt_of_any_length_is_run_in_chunks(opened: Opening, length: int, runs_ahead: bool) -> None:
    model, executor = opened(runs_ahead=runs_ahead)
    ids = prompt(1, length)
    result = model.generate(ids, max_tokens=20)
    assert list(result.ids) == answer(executor.size, ids, 20)
    assert (result.finish_reason, result.usage.prompt_tokens, result.usage.completion_tokens) == (
        "length",
        length,
        20,
    )


@pytest.mark.parametrize("loop", [DecodeLoop(1, 1), DecodeLoop(3, 1), DecodeLoop(8, 8), DecodeLoop(8, 8, "sequential"),
                                  DecodeLoop(8, 8, "overlapped", True)])  # fmt: skip
def test_any_group_size_gives_the_tokens_of_a_group_of_one(opened: Opening, loop: DecodeLoop) -> None:
    model, executor = opened(loop=loop)
    ids = prompt(2, 9)
    assert list(model.generate(ids, max_tokens=70).ids) == answer(executor.size, ids, 70)
    steps = [steps for *_, steps, _ in executor.log]
    ceiling = 1 if loop.disable_command_batching else loop.batch_size * loop.readback_interval
    assert max(steps) <= ceiling
    assert max(steps) > 1 or ceiling == 1


def test_company_does_not_change_an_answer(opened: Opening) -> None:
    model, executor = opened()
    prompts = [prompt(number, length) for number, length in enumerate([3, 30, 1, 17, 8, 50, 2, 23])]
    handles = [model.submit(GenerateRequest(ids, max_tokens=25)) for ids in prompts]
    for ids, handle in zip(prompts, handles, strict=True):
        assert list(handle.result(10).ids) == answer(executor.size, ids, 25)
    assert max(slots for _, _, slots, _, _ in executor.log) == executor.size.slots


@pytest.mark.parametrize("size", [Size(chunk=4, slots=1, snapshots=0), Size(context=64, window=1, chunk=5),
                                  Size(context=64, window=70), Size(window=3, chunk=16, slots=7)])  # fmt: skip
def test_neither_chunk_nor_window_nor_slots_change_an_answer(opened: Opening, size: Size) -> None:
    model, _ = opened(size)
    for round_ in range(3):
        prompts = [prompt(number, 5 + 7 * number) for number in range(7)]
        handles = [model.submit(GenerateRequest(ids, max_tokens=9 + round_)) for ids in prompts]
        for ids, handle in zip(prompts, handles, strict=True):
            assert list(handle.result(10).ids) == answer(size, ids, 9 + round_)


def test_every_way_to_choose_stays_with_its_own_request(opened: Opening) -> None:
    """Counts, biases and seeds of slots that others used before, and beside others that use theirs."""
    model, executor = opened()
    options: list[tuple[dict[str, Any], Sampling]] = [
        ({}, Sampling()),
        ({"temperature": 0.7, "seed": 5}, Sampling(temperature=0.7, seed=5)),
        ({"repetition_penalty": 1.3}, Sampling(repetition=1.3)),
        ({"temperature": 1.0, "seed": -1, "frequency_penalty": 0.5},
         Sampling(temperature=1.0, seed=2**64 - 1, frequency=0.5)),
        ({"logit_bias": {7: 2.0, 9: -1.0}}, Sampling(biased=True)),
        ({"presence_penalty": 0.1, "logit_bias": {8: 1.0}}, Sampling(presence=0.1, biased=True)),
    ]  # fmt: skip
    cases = [(prompt(number, 1 + number), *options[number % len(options)]) for number in range(24)]
    handles = [model.submit(GenerateRequest(ids, max_tokens=15, **asked)) for ids, asked, _ in cases]
    for (ids, asked, sampling), handle in zip(cases, handles, strict=True):
        assert list(handle.result(10).ids) == answer(
            executor.size, ids, 15, sampling, asked.get("logit_bias")
        )


def test_a_step_draws_and_counts_only_if_some_slot_asks(opened: Opening) -> None:
    model, executor = opened()
    model.generate(prompt(1, 3), max_tokens=5)
    assert all("draw" not in active and "count" not in active for *_, active in executor.log)
    model.generate(prompt(1, 3), max_tokens=5, temperature=1.0)
    assert all("count" not in active for *_, active in executor.log)


@pytest.mark.parametrize("host", [True, False])
def test_what_the_host_must_see_first_is_never_run_ahead(opened: Opening, host: bool) -> None:
    model, executor = opened(host=host)
    ids = prompt(1, 9)
    result = model.generate(ids, max_tokens=30, logprobs=None if host else 2)
    assert list(result.ids) == answer(executor.size, ids, 30)
    assert {(steps, "advance" in active) for *_, steps, active in executor.log} == {(1, False)}
    if not host:
        assert [one.id for one in result.logprobs] == list(result.ids)
        first = result.logprobs[0]
        assert first.logprob == pytest.approx(-first.id / 1000)
        assert [number for number, _ in first.top] == [first.id, (first.id + 1) % VOCABULARY]


def test_surplus_of_a_group_is_never_shown_and_never_counted(opened: Opening) -> None:
    model, executor = opened(loop=DecodeLoop(8, 8))
    ids = prompt(4, 6)
    expected = answer(executor.size, ids, 40)
    end = expected[20]
    deltas = list(model.submit(GenerateRequest(ids, max_tokens=60, stop_ids=(end,))))
    made = [token for delta in deltas for token in delta.ids]
    assert made == expected[: expected.index(end)]
    assert deltas[-1].usage is not None
    assert deltas[-1].usage.completion_tokens == len(made)


def test_requests_beyond_the_slots_wait_in_order(opened: Opening) -> None:
    model, _ = opened(Size(slots=2, snapshots=2), seconds=0.001)
    finished: list[int] = []
    handles = [model.submit(GenerateRequest(prompt(number, 4), max_tokens=20)) for number in range(8)]
    threads = [
        threading.Thread(target=lambda n=n: (handles[n].result(10), finished.append(n))) for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [number // 2 for number in finished] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_long_prompt_lets_others_go_on(opened: Opening) -> None:
    """At 2 ms a row, 250 rows in one step would keep the other request waiting for half a second."""
    model, executor = opened(Size(context=320, chunk=300, slots=2, snapshots=1), row_seconds=0.002)
    talking = iter(model.submit(GenerateRequest(prompt(1, 10), max_tokens=300)))
    next(talking)
    mark = len(executor.log)
    model.generate(prompt(2, 250), max_tokens=1)
    beside = [rows for _, rows, slots, *_ in executor.log[mark:] if slots == 2 and rows > 2]
    assert len(beside) >= 3
    assert max(beside) < 150
    talking.close()  # type: ignore[attr-defined]


def test_a_lost_device_fails_those_under_way_and_what_it_held_is_forgotten(opened: Opening) -> None:
    model, executor = opened(seconds=0.002)
    ids = prompt(8, 12)
    handles = [model.submit(GenerateRequest(ids, max_tokens=80)) for _ in range(6)]
    next(iter(handles[0]))
    executor.fault = DeviceLostError("gone")
    for handle in handles[1:]:
        with pytest.raises(DeviceLostError):
            handle.result(5)
    result = model.generate(ids, max_tokens=10)
    assert list(result.ids) == answer(executor.size, ids, 10)
    assert result.usage.cached_tokens == 0


def test_a_step_without_memory_is_a_limit(opened: Opening) -> None:
    model, executor = opened()
    executor.fault = MemoryError("Unable to allocate 9 GiB")
    with pytest.raises(LimitError, match="fewer slots"):
        model.generate(prompt(1, 2), max_tokens=2)


def test_warming_up_runs_both_phases_and_disturbs_nobody(opened: Opening) -> None:
    model, executor = opened()
    model.warmup()
    assert {phase for phase, *_ in executor.log} == {"prefill", "decode"}
    ids = prompt(3, 14)
    assert list(model.generate(ids, max_tokens=5).ids) == answer(executor.size, ids, 5)
    runs = len(executor.log)
    model.warmup()
    assert len(executor.log) == runs


@pytest.mark.parametrize("context", [1, 2])
def test_warming_up_takes_no_more_than_a_context_has(opened: Opening, context: int) -> None:
    model, executor = opened(Size(context=context, window=1, chunk=1))
    model.warmup()
    expected = answer(executor.size, prompt(1, 1), context - 1)  # the prompt has its place in it
    assert list(model.generate(prompt(1, 1), max_tokens=1).ids) == expected


def test_requests_leave_no_memory_behind(opened: Opening) -> None:
    model, executor = opened()

    def use(first: int) -> None:
        for number in range(first, first + 100):
            executor.log.clear()
            for _ in model.submit(GenerateRequest(prompt(number, 20), max_tokens=20)):
                if number % 4 == 0:
                    break

    use(0)
    gc.collect()
    tracemalloc.start()
    use(100)
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    use(200)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Objects only: a job that stayed would be some 3 kB, a hundred of them 300 kB. Two rounds may differ by what the
    # interpreter keeps for itself.
    assert after - before < 50_000


def test_five_hundred_requests_of_eight_threads_with_cancels(opened: Opening) -> None:
    """No wrong token, no place that stays taken, and answers of those that others cancelled beside."""
    model, executor = opened()
    shared = [prompt(number, 30) for number in range(5)]

    def ask(number: int) -> None:
        numbers = random.Random(number)
        ids = (*shared[number % 5][: numbers.randrange(1, 30)], *prompt(number, numbers.randrange(1, 20)))
        count = numbers.randrange(1, 40)
        handle = model.submit(GenerateRequest(ids, max_tokens=count))
        expected = answer(executor.size, ids, count)
        if number % 3:
            assert list(handle.result(30).ids) == expected
            return
        seen: list[int] = []
        for delta in handle:
            seen += delta.ids
            if len(seen) >= count // 2:
                handle.cancel()
        assert seen == expected[: len(seen)]
        assert handle.cancelled() or seen == expected

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(500)))
    decoder = model._driver._decoder  # type: ignore[attr-defined]
    assert model.generate(prompt(1, 3), max_tokens=1).ids
    assert all(slot.run is None or slot.run.job.done() for slot in decoder._places.slots)
