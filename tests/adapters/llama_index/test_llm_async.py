"""What DopplerLLM leaves to its event loop, and what it leaves behind: nothing that goes on."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel

from doppler_core.errors import EngineClosedError
from doppler_plugins.adapters.lazy_engine import MOMENT
from doppler_plugins.llama_index import DopplerLLM
from doppler_plugins.testing.llm_suite import gathered
from tests.adapters.obliging import oblige
from tests.adapters.scripted import wait_until
from tests.adapters.scripted_chat import ScriptedChat

MESSAGES = [ChatMessage(content="Tell me all.")]
PROMPT = PromptTemplate("Tell me of {what}.")
LONG = "word " * 400


class Bird(BaseModel):
    kind: str


def ring_bell() -> str:
    return "dong"


RING = FunctionTool.from_defaults(ring_bell)

Asking = Callable[[DopplerLLM], Awaitable[Any]]
EVERY_WAY: dict[str, Asking] = {
    "achat": lambda llm: llm.achat(MESSAGES),
    "astream_chat": lambda llm: gathered(llm.astream_chat(MESSAGES)),
    "acomplete": lambda llm: llm.acomplete("a"),
    "astream_complete": lambda llm: gathered(llm.astream_complete("a")),
    "achat_with_tools": lambda llm: llm.achat_with_tools([RING], "a", tool_required=True),
    "astream_chat_with_tools": lambda llm: gathered(llm.astream_chat_with_tools([RING], "a")),
    "apredict": lambda llm: llm.apredict(PROMPT, what="ponds"),
    "astream": lambda llm: gathered(llm.astream(PROMPT, what="ponds")),
    "astructured_predict": lambda llm: llm.astructured_predict(Bird, PROMPT, what="owls"),
    "astream_structured_predict": lambda llm: gathered(
        llm.astream_structured_predict(Bird, PROMPT, what="owls")
    ),
}


@pytest.fixture
def llm(chat_script: ScriptedChat) -> DopplerLLM:
    return DopplerLLM(model="scripted")


@pytest.mark.parametrize("way", EVERY_WAY)
def test_no_way_in_holds_the_loop_up_or_works_on_its_thread(
    llm: DopplerLLM, chat_script: ScriptedChat, way: str
) -> None:
    chat_script.reply, chat_script.open_seconds, chat_script.step_seconds = oblige, 0.6, 0.002

    async def longest_gap() -> float:
        asking = asyncio.ensure_future(EVERY_WAY[way](llm))
        longest, last = 0.0, time.perf_counter()
        while not asking.done():
            await asyncio.sleep(0.005)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now
        await asking
        return longest

    # Opening alone would hold it up for 0.6 s.
    assert asyncio.run(longest_gap()) < 0.5
    assert threading.get_ident() not in chat_script.threads


@pytest.mark.parametrize("way", ["achat", "astream_chat", "acomplete", "astream_complete", "apredict"])
def test_cancelling_the_task_stops_the_model_at_the_next_step(
    llm: DopplerLLM, chat_script: ScriptedChat, way: str
) -> None:
    chat_script.reply, chat_script.step_seconds = lambda request: LONG, 0.005

    async def quit_early() -> int:
        task = asyncio.ensure_future(EVERY_WAY[way](llm))
        await asyncio.to_thread(wait_until, lambda: chat_script.steps >= 3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return chat_script.steps

    steps = asyncio.run(quit_early())
    wait_until(lambda: chat_script.cancelled == 1)
    # The step under way, and one that began before the worker looked.
    assert chat_script.steps <= steps + 2


def test_leaving_a_stream_stops_the_model(llm: DopplerLLM, chat_script: ScriptedChat) -> None:
    chat_script.reply, chat_script.step_seconds = lambda request: LONG, 0.005
    stream = llm.stream_chat(MESSAGES)
    next(stream)
    stream.close()
    wait_until(lambda: chat_script.cancelled == 1)
    for _ in llm.stream_complete("a"):
        break
    wait_until(lambda: chat_script.cancelled == 2)

    async def leave() -> None:
        async for _ in await llm.astream_chat(MESSAGES):
            break
        await asyncio.to_thread(wait_until, lambda: chat_script.cancelled == 3)

    asyncio.run(leave())
    assert chat_script.steps < 50


def test_a_stream_asks_nothing_before_it_is_read(llm: DopplerLLM, chat_script: ScriptedChat) -> None:
    llm.stream_chat(MESSAGES)
    llm.stream_complete("a")
    assert (chat_script.opened, chat_script.requests) == ([], [])


def test_what_is_asked_together_runs_together(llm: DopplerLLM, chat_script: ScriptedChat) -> None:
    chat_script.reply, chat_script.step_seconds = lambda request: "word " * 20, 0.002

    async def all_at_once() -> None:
        await asyncio.gather(*(llm.achat(MESSAGES) for _ in range(4)))

    asyncio.run(all_at_once())
    assert chat_script.widest_step == 4


def test_the_first_piece_comes_long_before_the_last(llm: DopplerLLM, chat_script: ScriptedChat) -> None:
    chat_script.reply, chat_script.step_seconds = lambda request: "word " * 20, 0.01

    async def times() -> list[float]:
        started = time.perf_counter()
        return [time.perf_counter() - started async for _ in await llm.astream_chat(MESSAGES)]

    found = asyncio.run(times())
    assert len(found) > 3
    assert found[0] < found[-1] / 2


def test_an_answer_that_takes_too_long_is_a_timeout(llm: DopplerLLM, chat_script: ScriptedChat) -> None:
    chat_script.reply, chat_script.step_seconds = lambda request: LONG, 0.005
    with pytest.raises(TimeoutError):
        llm.chat(MESSAGES, timeout=0.05)
    with pytest.raises(TimeoutError):
        list(llm.stream_complete("a", timeout=0.05))
    with pytest.raises(TimeoutError):
        asyncio.run(llm.achat(MESSAGES, timeout=0.05))
    wait_until(lambda: chat_script.cancelled == 3)


def test_opening_within_a_coroutine_is_told_of(
    llm: DopplerLLM, chat_script: ScriptedChat, caplog: pytest.LogCaptureFixture
) -> None:
    chat_script.open_seconds = 3 * MOMENT

    async def first_asked(other: DopplerLLM, awaited: bool) -> None:
        if awaited:
            await other.awarmup()
        assert other.metadata.is_chat_model

    asyncio.run(first_asked(llm, awaited=True))
    asyncio.run(first_asked(llm.model_copy(), awaited=False))
    assert caplog.messages == [], "it is open already"
    asyncio.run(first_asked(llm.model_copy(update={"precision": "f16"}), awaited=False))
    (message,) = caplog.messages
    assert message.startswith("scripted is being opened in a coroutine")


def test_a_closed_one_says_so(llm: DopplerLLM) -> None:
    with llm:
        llm.complete("a")
    with pytest.raises(EngineClosedError):
        llm.complete("a")
