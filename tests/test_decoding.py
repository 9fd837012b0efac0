"""Decoding on a scripted model: whatever company, chunk, group or cache a prompt meets, its answer is its own."""

import gc
import json
import random
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from doppler_core.engine.engine import Engine
from doppler_core.engine.request import GenerateRequest
from doppler_core.errors import DeviceError, DeviceLostError, InputError, LimitError
from doppler_core.plan.sampling import BROKEN, NO_TOKEN, Sampling
from tests.causal_fakes import (
    BEGIN,
    END,
    FIRST_BYTE,
    MASK_WORDS,
    VOCABULARY,
    DecodeLoop,
    ScriptedExecutor,
    Size,
    answer,
    driver,
    engine,
    write_tokenizer,
)

SIZE, LOOP = Size(), DecodeLoop()


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer") / "tokenizer.json")


Opening = Callable[..., tuple[Engine, ScriptedExecutor]]


@pytest.fixture
def opened(tokenizer: Path) -> Iterator[Opening]:
    """Opens engines on scripted executors, and closes them."""
    engines: list[Engine] = []

    def open_(
        size: Size = SIZE,
        loop: DecodeLoop = LOOP,
        host: bool = False,
        files: dict[str, Path] | None = None,
        **options: Any,
    ) -> tuple[Engine, ScriptedExecutor]:
        executor = ScriptedExecutor(size, **options)
        engines.append(engine(driver(executor, tokenizer, loop, files, host), size))
        return engines[-1], executor

    yield open_
    for one in engines:
        one.close()


def prompt(seed: int, length: int) -> tuple[int, ...]:
    numbers = random.Random(seed)
    return (BEGIN, *(numbers.randrange(3, VOCABULARY) for _ in range(length - 1)))


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


def test_no_seed_is_another_seed_each_time(opened: Opening) -> None:
    model, _ = opened()
    ids = prompt(1, 3)
    assert (
        model.generate(ids, max_tokens=8, temperature=1.5).ids
        != model.generate(ids, max_tokens=8, temperature=1.5).ids
    )
    seeded = [model.generate(ids, max_tokens=8, temperature=1.5, seed=42).ids for _ in range(2)]
    assert seeded[0] == seeded[1]


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


class Alternating:
    """Allows the tokens above 50 whose number is odd, then even, then odd; after six tokens none."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def words(self) -> npt.NDArray[np.uint32]:
        bits = np.zeros(32 * MASK_WORDS, np.uint8)
        bits[51 + len(self.seen) % 2 : VOCABULARY : 2] = len(self.seen) < 6
        return np.packbits(bits, bitorder="little").view(np.uint32)

    def accept(self, token: int) -> None:
        self.seen.append(token)


def test_a_mask_limits_each_token_by_those_before_it(opened: Opening) -> None:
    model, executor = opened()
    masks = [Alternating(), Alternating()]
    asked = [
        GenerateRequest(prompt(number, 8), max_tokens=6, mask=lambda one=one: one)
        for number, one in enumerate(masks)
    ]  # type: ignore[misc]
    handles = [model.submit(one) for one in (*asked, GenerateRequest(prompt(3, 8), max_tokens=30))]
    for mask, handle in zip(masks, handles, strict=False):
        ids = handle.result(10).ids
        assert [token % 2 for token in ids] == [1, 0, 1, 0, 1, 0]
        assert min(ids) > 50
        assert mask.seen == list(ids[:-1])
    assert list(handles[2].result(10).ids) == answer(executor.size, prompt(3, 8), 30)
    with pytest.raises(InputError, match="no token is allowed"):
        model.generate(prompt(0, 8), max_tokens=7, mask=Alternating)


def test_a_mask_that_breaks_hurts_no_other_request(opened: Opening) -> None:
    class Breaking(Alternating):
        def accept(self, token: int) -> None:
            raise ValueError("no such state")

    model, executor = opened()
    other = model.submit(GenerateRequest(prompt(3, 8), max_tokens=30))
    with pytest.raises(ValueError, match="no such state"):
        model.generate(prompt(0, 8), max_tokens=7, mask=Breaking)
    assert list(other.result(10).ids) == answer(executor.size, prompt(3, 8), 30)


def test_a_text_gets_the_begin_token_once_whatever_it_says(opened: Opening) -> None:
    model, executor = opened()
    for text in ("salt", "<bos>salt", "<eos>"):
        ids = [BEGIN, *(FIRST_BYTE + byte for byte in text.encode())]
        assert list(model.generate(text, max_tokens=9).ids) == answer(executor.size, ids, 9)
        assert model.count_tokens(text) == len(ids)
    assert model.generate("", max_tokens=1).usage.prompt_tokens == 1


def test_a_conversation_for_a_base_model_is_refused_by_name(opened: Opening) -> None:
    model, _ = opened()
    with pytest.raises(InputError, match="no chat format"):
        model.generate([{"role": "user", "content": "hello"}], max_tokens=1)
    with pytest.raises(InputError, match="chat_format='gemma9'"):
        model.generate([{"role": "user", "content": "hello"}], max_tokens=1, chat_format="gemma9")


def test_counting_takes_a_text_and_no_prompts_name(opened: Opening) -> None:
    model, _ = opened()
    with pytest.raises(InputError, match="expected a str"):
        model.count_tokens(b"x")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no named prompts"):
        model.count_tokens("x", "query")


def test_the_models_own_end_tokens_end_an_answer_unless_they_are_ignored(
    opened: Opening, tmp_path: Path
) -> None:
    ids = prompt(4, 6)
    expected = answer(SIZE, ids, 40)
    config = tmp_path / "generation_config.json"
    config.write_text(json.dumps({"eos_token_id": [END, expected[7]]}))
    model, _ = opened(files={"generation_config.json": config})
    result = model.generate(ids, max_tokens=40)
    assert (list(result.ids), result.finish_reason) == (expected[: expected.index(expected[7])], "stop")
    assert result.stop == expected[7]
    assert list(model.generate(ids, max_tokens=40, ignore_eos=True).ids) == expected


def test_the_name_of_a_control_token_stops_at_that_token(opened: Opening) -> None:
    model, executor = opened()
    executor.poison = END
    result = model.generate(prompt(1, 3), max_tokens=9, stop=("<eos>", "never"), ignore_eos=True)
    assert (result.text, result.ids, result.stop) == ("", (), END)
    assert len(model.generate(prompt(1, 3), max_tokens=9, ignore_eos=True).ids) == 9


def test_a_stream_and_a_wait_give_the_same(opened: Opening) -> None:
    model, _ = opened()
    for stop in ((), ("w1",), (" w",), ("w3", "\x07")):
        request = GenerateRequest(prompt(6, 9), max_tokens=60, stop=stop)
        deltas = list(model.submit(request))
        result = model.submit(request).result(10)
        assert "".join(delta.text for delta in deltas) == result.text
        assert tuple(token for delta in deltas for token in delta.ids) == result.ids
        assert deltas[-1].finish_reason == result.finish_reason


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


def test_answers_end_at_the_limits(opened: Opening) -> None:
    model, executor = opened()
    ids = prompt(5, 20)
    room = executor.size.context - 20
    whole = answer(executor.size, ids, room)
    for asked, count in ((None, room), (room + 1, room), (10**9, room), (1, 1), (0, 0)):
        result = model.generate(ids, max_tokens=asked)
        assert list(result.ids) == whole[:count]
        assert result.finish_reason == "length"
    full = prompt(6, executor.size.context)
    assert model.generate(full).ids == ()


def test_a_request_for_no_tokens_runs_its_prompt_and_no_more(opened: Opening) -> None:
    model, executor = opened()
    ids = prompt(5, 20)
    assert model.generate(ids, max_tokens=0).usage.completion_tokens == 0
    assert sum(rows for _, rows, *_ in executor.log) == 20
    assert {active for *_, active in executor.log} == {frozenset()}
    assert model.generate(ids, max_tokens=2).usage.cached_tokens == 19


def test_a_prompt_over_the_context_is_an_error_unless_it_may_lose_its_begin(opened: Opening) -> None:
    model, executor = opened()
    long = prompt(7, executor.size.context + 1)
    with pytest.raises(InputError, match="97 tokens and the context 96") as raised:
        model.generate(long)
    assert (raised.value.tokens, raised.value.limit) == (97, 96)  # type: ignore[attr-defined]
    for asked, made in ((None, 24), (10, 10), (0, 0), (90, 48)):
        result = model.generate(long, max_tokens=asked, overflow="truncate_left")
        kept = 96 - made
        assert (result.usage.prompt_tokens, len(result.ids)) == (kept, made)
        assert list(result.ids) == answer(executor.size, (BEGIN, *long[len(long) - kept + 1 :]), made)


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


@pytest.mark.parametrize(("token", "error", "says"), [(NO_TOKEN, InputError, "forbids"), (BROKEN, DeviceError, "not numbers")])  # fmt: skip
def test_what_is_no_token_is_an_error_of_its_request_and_not_kept(
    opened: Opening, token: int, error: type[Exception], says: str
) -> None:
    model, executor = opened()
    ids = prompt(9, 12)
    executor.poison = token
    with pytest.raises(error, match=says):
        model.generate(ids, max_tokens=5)
    executor.poison = None
    result = model.generate(ids, max_tokens=5)
    assert list(result.ids) == answer(executor.size, ids, 5)
    assert result.usage.cached_tokens == 0


def test_warming_up_runs_both_phases_and_disturbs_nobody(opened: Opening) -> None:
    model, executor = opened()
    model.warmup()
    assert {phase for phase, *_ in executor.log} == {"prefill", "decode"}
    ids = prompt(3, 14)
    assert list(model.generate(ids, max_tokens=5).ids) == answer(executor.size, ids, 5)
    runs = len(executor.log)
    model.warmup()
    assert len(executor.log) == runs


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
