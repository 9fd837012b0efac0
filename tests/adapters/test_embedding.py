"""Texts to lists, for threads and event loops alike."""

import asyncio
import logging
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from doppler_core.engine.request import EmbedResult
from doppler_core.errors import CancelledError, EngineClosedError, InputError
from doppler_core.settings import EngineSettings
from doppler_plugins.adapters.embed_options import EmbedOptions
from doppler_plugins.adapters.embedding import aembed, check_texts, embed, to_lists
from doppler_plugins.adapters.lazy_engine import LazyEngine
from tests.adapters.scripted import Scripted, wait_until

PLAIN = EmbedOptions()


@pytest.fixture
def lazy(script: Scripted) -> LazyEngine:
    return LazyEngine("scripted", EngineSettings())


def test_all_texts_of_a_call_are_one_request(lazy: LazyEngine, script: Scripted) -> None:
    texts = [f"text {number}" for number in range(1000)]
    assert len(embed(lazy, PLAIN, "document", texts)) == 1000
    assert [len(request.texts) for request in script.requests] == [1000]


def test_nothing_to_embed_opens_nothing(lazy: LazyEngine, script: Scripted) -> None:
    assert embed(lazy, PLAIN, "document", []) == []
    assert asyncio.run(aembed(lazy, PLAIN, "document", iter(()))) == []
    assert script.opened == []


@pytest.mark.parametrize("wrong", [None, 7, b"bytes", ["a"], math.nan])
def test_what_is_no_text_is_named_by_its_index_before_anything_opens(
    lazy: LazyEngine, script: Scripted, wrong: Any
) -> None:
    with pytest.raises(TypeError, match=f"text 2: expected str, got {type(wrong).__name__}"):
        embed(lazy, PLAIN, "document", ["a", "b", wrong])
    with pytest.raises(TypeError, match="text 0"):
        asyncio.run(aembed(lazy, PLAIN, "query", [wrong]))
    assert script.opened == []


def test_one_str_is_not_a_list_of_letters() -> None:
    with pytest.raises(TypeError, match="put it in a list"):
        check_texts("letters")


@pytest.mark.parametrize("texts", [None, 5, object()])
def test_what_is_no_list_says_so(texts: Any) -> None:
    with pytest.raises(TypeError, match=f"expected a list of str, got {type(texts).__name__}"):
        check_texts(texts)


def test_a_title_is_missing_or_too_many() -> None:
    with pytest.raises(ValueError, match="2 texts, got 1"):
        check_texts(["a", "b"], ["title"])


@pytest.mark.parametrize(
    ("dtype", "kind", "length", "low", "high"),
    [("float32", float, 16, -1, 1), ("int8", int, 16, -127, 127), ("binary", int, 2, 0, 255)],
)
def test_numbers_are_pythons_own(
    lazy: LazyEngine, dtype: Any, kind: type, length: int, low: int, high: int
) -> None:
    (vector,) = embed(lazy, EmbedOptions(dimensions=16, output_dtype=dtype), "document", ["a"])
    assert {type(number) for number in vector} == {kind}
    assert len(vector) == length
    assert all(low <= number <= high for number in vector)


def test_a_cut_text_is_reported(lazy: LazyEngine, caplog: pytest.LogCaptureFixture) -> None:
    texts = ["short", "long " * 100]
    with caplog.at_level(logging.WARNING):
        vectors = embed(lazy, EmbedOptions(overflow="truncate"), "document", texts)
    assert len(vectors) == 2
    assert "1 of 2 texts" in caplog.text
    assert "[1]" in caplog.text


def test_what_the_model_does_not_have_is_an_input_error(lazy: LazyEngine) -> None:
    with pytest.raises(InputError, match="769"):
        embed(lazy, EmbedOptions(dimensions=769), "query", ["a"])
    with pytest.raises(InputError, match="did you mean 'Clustering'"):
        embed(lazy, EmbedOptions(task="Clusterin"), "query", ["a"])


def test_cancelling_the_task_cancels_the_request(lazy: LazyEngine, script: Scripted) -> None:
    script.step_seconds = 0.01

    async def quit_early() -> int:
        task = asyncio.create_task(aembed(lazy, PLAIN, "document", ["a"] * 500))
        await asyncio.to_thread(wait_until, lambda: script.steps >= 3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        seen = script.steps
        # Behind 500 texts of 10 ms this one would wait for 5 s.
        async with asyncio.timeout(2):
            await aembed(lazy, PLAIN, "query", ["b"])
        return script.steps - seen

    assert asyncio.run(quit_early()) <= 3, "the step under way, one more, and the query's own"


def test_an_interrupted_wait_cancels_the_request(
    lazy: LazyEngine, script: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.step_seconds = 0.005

    def interrupted(handle: Any, timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("doppler_core.engine.handle.Handle.result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            embed(lazy, PLAIN, "document", ["a"] * 1000)
    started = time.perf_counter()
    embed(lazy, PLAIN, "query", ["b"])
    assert time.perf_counter() - started < 2.5, "1000 texts of 5 ms went on"


def test_the_event_loop_ticks_on_while_the_engine_works(lazy: LazyEngine, script: Scripted) -> None:
    script.open_seconds, script.step_seconds = 0.2, 0.02

    async def gaps_of_a_ticker() -> list[float]:
        work = asyncio.create_task(aembed(lazy, PLAIN, "document", ["a"] * 20))
        gaps, last = [], time.perf_counter()
        while not work.done():
            await asyncio.sleep(0.01)
            gaps.append(time.perf_counter() - last)
            last += gaps[-1]
        assert len(await work) == 20
        return gaps

    gaps = asyncio.run(gaps_of_a_ticker())
    assert np.median(gaps) < 0.1
    assert max(gaps) < 0.5
    assert len(gaps) > 5


def test_a_large_result_is_turned_into_lists_off_the_loop(
    lazy: LazyEngine, script: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def watched(result: EmbedResult) -> list[list[float]]:
        threads.append(threading.current_thread())
        return to_lists(result)

    monkeypatch.setattr("doppler_plugins.adapters.embedding.to_lists", watched)
    asyncio.run(aembed(lazy, PLAIN, "document", ["a"] * 4000))  # 128,000 numbers
    asyncio.run(aembed(lazy, PLAIN, "document", ["a"]))
    assert [thread is threading.main_thread() for thread in threads] == [False, True]


def test_sixteen_threads_of_two_settings_get_their_own_results(lazy: LazyEngine) -> None:
    small = EmbedOptions(dimensions=8, overflow="truncate")
    calls = [
        (options, kind, f"text {number}")
        for number in range(40)
        for options in (PLAIN, small)
        for kind in ("query", "document")
    ]

    def one(call: Any) -> list[list[float]]:
        return embed(lazy, call[0], call[1], [call[2]])

    serial = [one(call) for call in calls]
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(one, calls)) == serial


def test_many_tasks_of_many_loops_share_one_engine(lazy: LazyEngine, script: Scripted) -> None:
    expected = embed(lazy, PLAIN, "document", ["a", "b"])

    def run(_: int) -> list[Any]:
        async def gather() -> list[Any]:
            return await asyncio.gather(*(aembed(lazy, PLAIN, "document", ["a", "b"]) for _ in range(8)))

        return asyncio.run(gather())

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(4))) == [[expected] * 8] * 4
    assert len(script.opened) == 1


def test_closing_fails_what_is_under_way(lazy: LazyEngine, script: Scripted) -> None:
    script.step_seconds = 0.01
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(embed, lazy, PLAIN, "document", ["a"] * 1000)
        wait_until(lambda: script.steps >= 2)
        lazy.close()
        with pytest.raises((EngineClosedError, CancelledError)):
            work.result(timeout=5)
