"""Engines: order, cancellation, closing, threads, forks, errors of one request and errors of the device."""

import asyncio
import contextlib
import gc
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from doppler_core.engine import memory
from doppler_core.engine.engine import Engine
from doppler_core.engine.handle import Handle
from doppler_core.engine.request import Capabilities, EmbedRequest
from doppler_core.errors import CancelledError, DeviceLostError, EngineClosedError, InputError, LimitError
from tests.scripted_engine import Opened, Panic, ask


@pytest.fixture
def opened() -> Any:
    made = Opened()
    yield made
    made.driver.gate.set()
    made.engine.close()


def test_one_thread_prepares_and_one_steps_and_neither_is_the_callers(opened: Opened) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: opened.engine.submit(ask(3)).result(5), range(32))) == {"done"}
    preparing, stepping = opened.driver.preparing, opened.driver.stepping
    assert (len(preparing), len(stepping)) == (1, 1)
    assert len({*preparing, *stepping, threading.get_ident()}) == 3


def test_requests_are_prepared_in_their_order(opened: Opened) -> None:
    for handle in [opened.engine.submit(ask(steps)) for steps in range(1, 20)]:
        handle.result(5)
    assert opened.driver.asked == [str(steps) for steps in range(1, 20)]


def test_a_request_that_takes_long_to_prepare_holds_up_no_step(opened: Opened) -> None:
    opened.driver.gate.clear()
    running = opened.engine.submit(ask(5))
    assert opened.driver.begun.wait(5)
    opened.driver.desk.clear()
    slow = opened.engine.submit(ask(1))
    opened.driver.gate.set()
    assert running.result(4) == "done"
    assert not slow.done()
    opened.driver.desk.set()
    assert slow.result(5) == "done"


def test_closing_fails_what_is_still_being_prepared(opened: Opened) -> None:
    opened.driver.desk.clear()
    handles = [opened.engine.submit(ask(1)) for _ in range(3)]
    assert opened.driver.at_desk.wait(5)
    closing = threading.Thread(target=opened.engine.close)
    closing.start()
    assert opened.released.wait(5), "the device waits for no request"
    opened.driver.desk.set()
    closing.join(5)
    assert not closing.is_alive()
    for handle in handles:
        with pytest.raises(EngineClosedError):
            handle.result(5)
    assert len(opened.driver.asked) == 1, "the others need not be prepared"


def test_requests_join_between_steps(opened: Opened) -> None:
    opened.driver.gate.clear()
    first = opened.engine.submit(ask(3))
    assert opened.driver.begun.wait(5)
    second = opened.engine.submit(ask(1))
    with pytest.raises(InputError):
        opened.engine.submit(ask(-1)).result(5)  # prepared behind the second, which is ready by now
    opened.driver.gate.set()
    assert (first.result(5), second.result(5)) == ("done", "done")
    assert opened.driver.steps == [1, 2, 1]


def test_a_wrong_request_hurts_no_other(opened: Opened) -> None:
    wrong, right = opened.engine.submit(ask(-1)), opened.engine.submit(ask(2))
    with pytest.raises(InputError, match="negative"):
        wrong.result(5)
    assert right.result(5) == "done"


def test_a_lost_device_fails_all_under_way_and_the_next_request_is_still_answered(opened: Opened) -> None:
    opened.driver.fail = True
    handles = [opened.engine.submit(ask(5)) for _ in range(3)]
    for handle in handles:
        with pytest.raises(DeviceLostError):
            handle.result(5)
    opened.driver.fail = False
    assert opened.engine.submit(ask(1)).result(5) == "done"


def test_what_is_no_exception_settles_the_handle_and_leaves_the_worker_alive(opened: Opened) -> None:
    with pytest.raises(Panic):
        opened.engine.submit(EmbedRequest(("panic",))).result(5)
    opened.driver.fail, opened.driver.fault = True, Panic("in a step")
    with pytest.raises(Panic):
        opened.engine.submit(ask(3)).result(5)
    opened.driver.fail = False
    assert opened.engine.submit(ask(1)).result(5) == "done"


def test_who_is_interrupted_while_waiting_gives_the_request_up(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(handle: Handle[Any], timeout: float | None = None) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(Handle, "result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        opened.engine.embed([str(10**9)])
    monkeypatch.undo()
    steps = len(opened.driver.steps)
    assert opened.engine.submit(ask(1)).result(5) == "done"
    # One step may have been under way; the request of a billion steps is in none that follows.
    assert opened.driver.steps[steps + 1 :] in ([], [1])


@pytest.mark.parametrize("texts", ["eggs", b"eggs", bytearray(b"eggs")])
def test_one_text_is_not_taken_for_the_texts_of_its_letters(opened: Opened, texts: Any) -> None:
    with pytest.raises(InputError, match="put it in a list"):
        opened.engine.embed(texts)


@pytest.mark.parametrize("texts", [None, 5])
def test_what_is_no_collection_of_texts_says_so(opened: Opened, texts: Any) -> None:
    with pytest.raises(InputError, match=f"texts: expected a list of str, got {type(texts).__name__}"):
        opened.engine.embed(texts)


def test_texts_may_come_from_any_iterable(opened: Opened) -> None:
    assert opened.engine.embed(str(steps) for steps in (1, 2)) == "done"


def test_a_cancelled_request_leaves_at_the_next_step(opened: Opened) -> None:
    opened.driver.gate.clear()
    endless, other = opened.engine.submit(ask(10**9)), opened.engine.submit(ask(2))
    assert endless.cancel()
    opened.driver.gate.set()
    with pytest.raises(CancelledError):
        endless.result(5)
    assert other.result(5) == "done"
    assert max(opened.driver.steps[1:], default=1) == 1


def test_a_finished_request_can_not_be_cancelled(opened: Opened) -> None:
    handle = opened.engine.submit(ask(1))
    assert handle.result(5) == "done"
    assert not handle.cancel()
    assert handle.done()
    assert not handle.cancelled()


async def test_cancelling_the_awaiting_task_cancels_the_request(opened: Opened) -> None:
    handle = opened.engine.submit(ask(10**9))

    async def wait() -> object:
        return await handle

    task = asyncio.create_task(wait())
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert handle.cancelled()


async def test_a_request_that_another_cancels_is_no_cancelled_task(opened: Opened) -> None:
    handle = opened.engine.submit(ask(10**9))
    asyncio.get_running_loop().call_later(0.02, handle.cancel)
    with pytest.raises(CancelledError, match="the request was cancelled"):
        await handle
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(opened.engine.submit(ask(10**9)), 0.02)


async def test_awaiting_leaves_the_loop_free(opened: Opened) -> None:
    opened.driver.gate.clear()
    handle = opened.engine.submit(ask(1))
    ticks = 0
    for _ in range(10):
        await asyncio.sleep(0.005)
        ticks += 1
    opened.driver.gate.set()
    assert await handle == "done"
    assert ticks == 10


def test_close_fails_what_is_under_way_releases_the_device_and_lets_nothing_in(opened: Opened) -> None:
    opened.driver.gate.clear()
    handle = opened.engine.submit(ask(10**9))
    time.sleep(0.02)
    closing = threading.Thread(target=opened.engine.close)
    closing.start()
    opened.driver.gate.set()
    closing.join(5)
    assert opened.released.is_set()
    with pytest.raises(EngineClosedError):
        handle.result(5)
    with pytest.raises(EngineClosedError, match="open the model again"):
        opened.engine.submit(ask(1))
    opened.engine.close()


def test_an_engine_that_is_dropped_releases_its_device() -> None:
    made = Opened()
    released = made.released
    del made
    gc.collect()
    assert released.wait(5)


@pytest.mark.parametrize("of_a_step", [True, False], ids=["of a step", "of a request"])
def test_an_engine_that_is_dropped_after_an_error_releases_its_device_too(of_a_step: bool) -> None:
    """An error that was raised holds the frames it went through: the worker must not go on holding the error."""
    opened = Opened()
    lease = opened.engine.lease(opened.released.set)
    opened.driver.fail = of_a_step

    def use(engine: Engine) -> None:
        with pytest.raises((DeviceLostError, InputError)):
            engine.embed(["3" if of_a_step else "-1"])

    use(lease)
    opened.driver.fault = DeviceLostError("another: the driver of this test held the first")
    del lease
    gc.collect()
    assert opened.released.wait(5)
    opened.engine.close()


def test_a_lease_is_closed_alone(opened: Opened) -> None:
    given_up: list[bool] = []
    share = opened.engine.lease(lambda: given_up.append(True))
    share.close()
    share.close()
    assert given_up == [True]
    with pytest.raises(EngineClosedError):
        share.submit(ask(1))
    assert opened.engine.submit(ask(1)).result(5) == "done"


def test_a_forked_child_is_told_to_open_its_own(opened: Opened) -> None:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            opened.engine.submit(ask(1))
            os.write(write, b"accepted")
        except EngineClosedError as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    assert b"open the model in the child" in os.read(read, 1000)
    os.close(read)


def test_a_model_that_does_not_embed_says_so(opened: Opened) -> None:
    opened.engine.capabilities = Capabilities(embeds=False)
    with pytest.raises(InputError, match="does not embed"):
        opened.engine.submit(ask(1))


def test_warmup_runs_in_the_worker(opened: Opened) -> None:
    opened.engine.warmup()
    assert opened.driver.steps == [0]


def test_memory_is_reserved_once_and_given_back() -> None:
    before = memory.room(1000)
    key = memory.reserve(600, "a model", 1000)
    try:
        assert memory.room(1000) == before - 600  # type: ignore[operator]
        with pytest.raises(LimitError, match="close other engines"):
            memory.reserve(600, "another model", 1000)
        with pytest.raises(LimitError, match="close other engines"):
            memory.reserve(10**400, "a model of more slots than any float counts", 1000)
    finally:
        memory.release(key)
        memory.release(key)
    assert memory.room(1000) == before


def test_two_at_once_do_not_take_the_same_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sees the room before either takes it, unless looking and taking are one act."""
    meeting = threading.Barrier(2)
    room = memory.room

    def slow(limit: int | None) -> int | None:
        left = room(limit)
        with contextlib.suppress(threading.BrokenBarrierError):
            meeting.wait(0.2)
        return left

    def take(_: int) -> object:
        try:
            return memory.reserve(600, "a model", taken + 1000)
        except LimitError:
            return None

    taken = -(memory.room(0) or 0)
    monkeypatch.setattr(memory, "room", slow)
    with ThreadPoolExecutor(2) as pool:
        keys = list(pool.map(take, range(2)))
    for key in keys:
        memory.release(key)
    assert sum(key is not None for key in keys) == 1
