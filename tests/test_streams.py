"""Handles as streams: every delta once and in order, a reader that leaves gives its request up, and holds up nobody."""

import asyncio
import copy
import gc
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from doppler_core.engine.engine import Engine
from doppler_core.engine.handle import Handle
from doppler_core.engine.request import Capabilities, Delta, GenerateRequest, GenerateResult
from doppler_core.errors import CancelledError, DeviceLostError, EngineClosedError, InputError
from doppler_core.plan.op import Plan

ENDLESS = 10**9


class CountingJob:
    """Gives the numbers 0, 1, 2, ... one a step."""

    def __init__(self, most: int) -> None:
        self.most, self.made = most, 0
        self.reason: str | None = None
        self.fresh: list[Delta] = []

    def advance(self) -> None:
        self.fresh.append(Delta(f"{self.made} "))
        self.made += 1
        if self.made == self.most:
            self.reason = "length"
            self.fresh.append(Delta("", finish_reason="length"))

    def done(self) -> bool:
        return self.reason is not None

    def result(self) -> str:
        return "".join(f"{number} " for number in range(self.made))

    def news(self) -> Sequence[Delta]:
        fresh, self.fresh = self.fresh, []
        return fresh

    def cancel(self) -> None:
        self.reason = "cancelled"
        self.fresh.append(Delta("", finish_reason="cancelled"))


class CountingDriver:
    """Steps every job while the gate is open; fails at the number a test sets."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.seconds = 0.001
        self.fails_at = -1
        self.running: list[int] = []

    def prepare(self, request: GenerateRequest, submitted: float) -> CountingJob:
        if request.max_tokens is not None and request.max_tokens < 0:
            raise InputError("negative")
        return CountingJob(ENDLESS if request.max_tokens is None else request.max_tokens)

    def step(self, jobs: Sequence[CountingJob]) -> None:
        self.gate.wait(5)
        time.sleep(self.seconds)
        self.running.append(len(jobs))
        for job in jobs:
            if job.made == self.fails_at:
                raise DeviceLostError("gone")
            job.advance()

    def warmup(self) -> None: ...

    def count_tokens(self, text: str, prompt_name: str | None = None, **fields: object) -> int:
        return len(text)


class Counting:
    """An engine whose answers are numbers."""

    def __init__(self) -> None:
        self.driver = CountingDriver()
        self.engine = Engine(
            model_id="counting",
            identity="0",
            capabilities=Capabilities(generates=True),
            plan=Plan("counting", {}, {}),
            driver=self.driver,
            device="none",
            memory_bytes=0,
            closing=lambda: None,
        )

    def submit(self, most: int | None) -> Handle[GenerateResult]:
        return self.engine.submit(GenerateRequest("count", max_tokens=most))

    def is_idle(self) -> bool:
        """Whether no request is under way: nothing steps while one that is new does."""
        self.submit(1).result(5)
        return self.driver.running[-1] == 1


@pytest.fixture
def counting() -> Iterator[Counting]:
    made = Counting()
    yield made
    made.driver.gate.set()
    made.engine.close()


def expect_idle(counting: Counting) -> None:
    """A request that was given up leaves at the next step; the one after it is alone."""
    deadline = time.monotonic() + 5
    while not counting.is_idle():
        assert time.monotonic() < deadline, "the request still runs"


def numbers(deltas: Sequence[Delta]) -> str:
    return "".join(delta.text for delta in deltas)


def test_deltas_come_in_order_once_and_the_last_says_why(counting: Counting) -> None:
    handle = counting.submit(50)
    deltas = list(handle)
    assert numbers(deltas) == handle.result(5) == "".join(f"{number} " for number in range(50))
    assert [delta.finish_reason for delta in deltas] == [None] * 50 + ["length"]


async def test_event_loops_get_the_same_deltas(counting: Counting) -> None:
    handle = counting.submit(50)
    deltas = [delta async for delta in handle]
    assert deltas == list(handle)
    assert len(deltas) == 51


def test_whoever_reads_later_or_beside_gets_everything_too(counting: Counting) -> None:
    handle = counting.submit(30)
    with ThreadPoolExecutor(4) as pool:
        readings = list(pool.map(lambda _: list(handle), range(4)))
    assert all(reading == list(handle) for reading in readings)


def test_the_first_delta_comes_long_before_the_last(counting: Counting) -> None:
    counting.driver.seconds = 0.01
    started = time.monotonic()
    times = [time.monotonic() - started for _ in counting.submit(20)]
    assert times[0] < times[-1] / 2


def test_a_reader_that_is_slow_holds_up_nobody(counting: Counting) -> None:
    slow = iter(counting.submit(200))
    next(slow)
    assert counting.submit(200).result(5)
    assert len(list(slow)) == 200


async def test_reading_leaves_the_loop_free(counting: Counting) -> None:
    counting.driver.seconds = 0.02
    gaps: list[float] = []

    async def tick() -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.005)
            gaps.append(time.monotonic() - before)

    ticker = asyncio.create_task(tick())
    assert len([delta async for delta in counting.submit(20)]) == 21
    ticker.cancel()
    # A loop that waited for each step would tick about 20 times in 20 steps of 20 ms, not every 5 ms.
    assert len(gaps) > 30


def test_leaving_the_loop_gives_the_request_up(counting: Counting) -> None:
    for delta in counting.submit(None):
        if delta.text == "3 ":
            break
    expect_idle(counting)


def test_closing_an_iterator_gives_the_request_up(counting: Counting) -> None:
    handle = counting.submit(None)
    reading = iter(handle)
    next(reading)
    reading.close()  # type: ignore[attr-defined]
    assert handle.cancelled()
    expect_idle(counting)


def test_an_error_of_the_reader_gives_the_request_up(counting: Counting) -> None:
    handle = counting.submit(None)

    def read() -> None:
        for _ in handle:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read()
    assert handle.cancelled()
    expect_idle(counting)


async def test_leaving_an_asynchronous_loop_gives_the_request_up(counting: Counting) -> None:
    async for delta in counting.submit(None):
        if delta.text == "3 ":
            break
    await asyncio.sleep(0.01)  # the event loop closes the generator that was left, when it gets to it
    expect_idle(counting)


async def test_cancelling_the_task_that_reads_gives_the_request_up(counting: Counting) -> None:
    handle = counting.submit(None)

    async def read() -> None:
        async for _ in handle:
            pass

    task = asyncio.create_task(read())
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert handle.cancelled()
    expect_idle(counting)


def test_a_handle_that_nobody_holds_any_more_gives_the_request_up(counting: Counting) -> None:
    handle = counting.submit(None)
    reading = iter(handle)
    next(reading)
    del handle, reading
    gc.collect()
    expect_idle(counting)
    counting.submit(None)
    gc.collect()
    expect_idle(counting)


def test_a_copy_of_a_handle_that_goes_gives_up_nothing(counting: Counting) -> None:
    handle = counting.submit(3)
    for copied in (copy.copy(handle), copy.deepcopy([handle])[0]):
        assert copied is handle
    del copied
    gc.collect()
    assert not handle.cancelled()
    handle.result(5)


def test_cancelling_ends_the_stream_with_a_delta_that_says_so(counting: Counting) -> None:
    handle, seen = counting.submit(None), []
    for delta in handle:
        seen.append(delta)
        if len(seen) == 3:
            assert handle.cancel()
    assert seen[-1].finish_reason == "cancelled"
    assert [delta.text for delta in seen[:3]] == ["0 ", "1 ", "2 "]
    assert list(handle) == seen
    with pytest.raises(CancelledError):
        handle.result(5)


def test_a_request_cancelled_while_it_waits_still_ends_its_stream(counting: Counting) -> None:
    counting.driver.gate.clear()
    busy = counting.submit(None)
    waiting = counting.submit(5)
    assert waiting.cancel()
    counting.driver.gate.set()
    assert [delta.finish_reason for delta in waiting] == ["cancelled"]
    busy.cancel()


def test_an_error_comes_after_the_deltas_before_it(counting: Counting) -> None:
    counting.driver.fails_at = 3
    reading = iter(counting.submit(10))
    assert numbers([next(reading) for _ in range(3)]) == "0 1 2 "
    with pytest.raises(DeviceLostError):
        next(reading)
    with pytest.raises(InputError, match="negative"):
        list(counting.submit(-1))


def test_closing_the_engine_ends_the_streams_of_all_readers(counting: Counting) -> None:
    reading = iter(counting.submit(None))
    next(reading)
    counting.engine.close()
    with pytest.raises(EngineClosedError):
        list(reading)


async def test_a_reader_of_a_loop_that_was_closed_disturbs_nobody(counting: Counting) -> None:
    counting.driver.gate.clear()
    handle = counting.submit(5)

    def read_in_a_loop_of_its_own() -> None:
        async def read() -> None:
            async for _ in handle:
                pass

        loop = asyncio.new_event_loop()
        task = loop.create_task(read())
        loop.run_until_complete(asyncio.sleep(0.01))
        loop.close()
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # what this test is about

    await asyncio.to_thread(read_in_a_loop_of_its_own)
    other = counting.submit(5)
    counting.driver.gate.set()
    assert len([delta async for delta in other]) == 6


def test_a_model_that_only_embeds_says_so(counting: Counting) -> None:
    counting.engine.capabilities = Capabilities(embeds=True)
    with pytest.raises(InputError, match="does not generate"):
        counting.submit(1)
