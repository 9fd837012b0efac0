"""A request that is given up: the device does at most the group of steps that had begun to be submitted, and no more."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from doppler_core.engine.engine import Engine
from doppler_core.engine.handle import Handle
from doppler_core.engine.request import GenerateRequest, GenerateResult
from tests.causal_fakes import (
    DecodeLoop,
    Opening,
    ScriptedExecutor,
    Size,
    answer,
    prompt,
)

SIZE = Size(context=4000, slots=3)
STEP_SECONDS = 0.004  # so that a group of eight takes 32 ms: long beside what the host does, short for a test


async def awaits(handle: Handle[GenerateResult]) -> None:
    await handle


async def reads(handle: Handle[GenerateResult]) -> None:
    async for _ in handle:
        pass


async def reads_a_generator(handle: Handle[GenerateResult]) -> None:
    async def texts() -> AsyncIterator[str]:
        async for delta in handle:
            yield delta.text

    async for _ in texts():
        pass


async def running(executor: ScriptedExecutor, groups: int) -> None:
    """Until so many groups of steps have been submitted."""
    begun = len(executor.log)
    while len(executor.log) < begun + groups:
        await asyncio.sleep(0.001)


async def still(executor: ScriptedExecutor) -> int:
    """The groups submitted by the time that no more come, for as long as ten would take."""
    seen, since = -1, time.monotonic()
    while time.monotonic() - since < 10 * 8 * STEP_SECONDS:
        if len(executor.log) != seen:
            seen, since = len(executor.log), time.monotonic()
        await asyncio.sleep(0.005)
    return seen


@pytest.mark.parametrize("loop", [DecodeLoop(8, 1), DecodeLoop(8, 1, "sequential"), DecodeLoop(1, 1)], ids=["overlapped", "sequential", "single"])  # fmt: skip
@pytest.mark.parametrize("waits", [awaits, reads, reads_a_generator])
def test_cancelling_a_task_stops_the_device_within_one_group(
    opened: Opening, waits: Callable[[Handle[GenerateResult]], Awaitable[None]], loop: DecodeLoop
) -> None:
    model, executor = opened(SIZE, loop, seconds=STEP_SECONDS)

    async def main() -> tuple[int, int]:
        task = asyncio.ensure_future(waits(model.submit(GenerateRequest(prompt(1, 9)))))
        await running(executor, 12)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return len(executor.log), await still(executor)

    at_once, at_last = asyncio.run(main())
    # The group whose submitting had begun is noted when it has run.
    assert at_last - at_once <= 1
    assert_well(model, executor)


def test_who_goes_on_is_not_held_up_by_who_leaves(opened: Opening) -> None:
    model, executor = opened(SIZE, DecodeLoop(8, 1), seconds=STEP_SECONDS)

    async def main() -> GenerateResult:
        stays = model.submit(GenerateRequest(prompt(2, 9), max_tokens=100))
        leaves = asyncio.ensure_future(awaits(model.submit(GenerateRequest(prompt(1, 9)))))
        await running(executor, 5)
        leaves.cancel()
        await running(executor, 2)
        assert executor.log[-1][2] == 1, "a step of who stays alone"
        return await stays

    assert list(asyncio.run(main()).ids) == answer(SIZE, prompt(2, 9), 100)


def assert_well(model: Engine, executor: ScriptedExecutor) -> None:
    """The next request runs as if nothing had been."""
    assert list(model.generate(prompt(3, 5), max_tokens=4).ids) == answer(executor.size, prompt(3, 5), 4)
