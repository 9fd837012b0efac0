"""On event loops and in threads: nobody is held up, what is cancelled stops, and many requests run together."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import pytest
from langchain_core import exceptions

from doppler_plugins.langchain import ChatDoppler, DopplerLLM
from tests.adapters.scripted import wait_until
from tests.adapters.scripted_chat import ScriptedChat, text_of

LONG = "word " * 400

each = pytest.mark.parametrize("kind", [ChatDoppler, DopplerLLM])


@asynccontextmanager
async def heartbeat(seconds: float = 0.005) -> AsyncIterator[list[float]]:
    """The gaps between beats of the loop while the block runs."""
    gaps: list[float] = []

    async def beat() -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(seconds)
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    task = asyncio.create_task(beat())
    try:
        yield gaps
    finally:
        task.cancel()


@each
async def test_no_engine_work_runs_on_the_loops_thread(kind: type[Any], chat_script: ScriptedChat) -> None:
    model = kind(model="scripted")
    await model.ainvoke("Hi")
    await model.abatch(["Hi", "Ho"])
    assert [chunk async for chunk in model.astream("Hi")]
    assert [event async for event in model.astream_events("Hi", version="v2")]
    await model.awarmup()
    await model.aclose()
    assert len(chat_script.requests) == 5
    assert threading.get_ident() not in chat_script.threads


async def test_tools_and_structured_answers_leave_the_loop_alone_too(chat_script: ScriptedChat) -> None:
    from tests.adapters.obedient import obedient

    chat_script.reply = obedient()
    model = ChatDoppler(model="scripted")
    await model.with_structured_output({"type": "object", "properties": {}}).ainvoke("Hi")
    await model.bind_tools([{"name": "f", "input_schema": {"type": "object"}}], tool_choice="any").ainvoke(
        "Hi"
    )
    assert len(chat_script.requests) == 2
    assert threading.get_ident() not in chat_script.threads


async def test_the_loop_beats_on_while_a_model_opens_and_speaks(chat_script: ScriptedChat) -> None:
    chat_script.reply = lambda request: LONG
    chat_script.open_seconds, chat_script.step_seconds = 0.3, 0.002
    model = ChatDoppler(model="scripted", max_tokens=100)
    async with heartbeat() as gaps:
        chunks = [chunk async for chunk in model.astream("Hi")]
    assert len(chunks) == 101, "a chunk for each token, and one that ends"
    # Opening alone takes 0.3 s; a loop that waited for it, or for the answer, would have gaps as long.
    assert sorted(gaps)[len(gaps) // 2] < 0.02
    assert max(gaps) < 0.25


async def test_the_first_chunk_comes_before_the_last_token_is_made(chat_script: ScriptedChat) -> None:
    chat_script.reply = lambda request: LONG
    chat_script.step_seconds = 0.002
    stream = ChatDoppler(model="scripted", max_tokens=200).astream("Hi")
    await anext(stream)
    assert chat_script.steps < 100
    await stream.aclose()


@each
@pytest.mark.parametrize("way", ["ainvoke", "astream", "abatch"])
async def test_cancelling_a_task_stops_the_device_within_a_step(
    kind: type[Any], way: str, chat_script: ScriptedChat
) -> None:
    chat_script.reply = lambda request: LONG
    chat_script.step_seconds = 0.01
    model = kind(model="scripted", max_tokens=400)

    async def use() -> None:
        if way == "astream":
            async for _ in model.astream("Hi"):
                pass
        else:
            await getattr(model, way)("Hi" if way == "ainvoke" else ["Hi"])

    task = asyncio.create_task(use())
    while chat_script.steps < 3:
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    at_cancel = chat_script.steps
    await asyncio.sleep(0.1)
    assert chat_script.cancelled == 1
    assert chat_script.steps <= at_cancel + 1


@each
async def test_leaving_a_stream_gives_the_request_up(kind: type[Any], chat_script: ScriptedChat) -> None:
    chat_script.reply = lambda request: LONG
    chat_script.step_seconds = 0.005
    model = kind(model="scripted", max_tokens=400)
    async for _ in model.astream("Hi"):
        break
    for _ in range(500):
        if chat_script.cancelled:
            break
        await asyncio.sleep(0.002)
    assert chat_script.cancelled == 1
    assert chat_script.steps < 100


async def test_tasks_of_one_model_run_together_and_get_their_own_answers(chat_script: ScriptedChat) -> None:
    chat_script.reply = lambda request: text_of(request.prompt)
    chat_script.step_seconds = 0.005
    model = ChatDoppler(model="scripted")
    prompts = [f"the number {n}" for n in range(8)]
    answers = await asyncio.gather(*(model.ainvoke(prompt) for prompt in prompts))
    assert all(prompt in answer.text for prompt, answer in zip(prompts, answers, strict=True))
    assert chat_script.widest_step == 8
    assert [one.text for one in answers] == [one.text for one in await model.abatch(prompts)]


def test_threads_of_one_model_get_their_own_answers(chat_script: ScriptedChat) -> None:
    chat_script.reply = lambda request: text_of(request.prompt)
    model = ChatDoppler(model="scripted")
    prompts = [f"the number {n}" for n in range(16)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(model.invoke, prompts))
    assert all(prompt in answer.text for prompt, answer in zip(prompts, answers, strict=True))
    assert [one.text for one in model.batch(prompts)] == [one.text for one in answers]


@pytest.mark.parametrize("way", ["invoke", "stream", "batch"])
@each
def test_a_timeout_is_an_error_that_may_be_retried(
    kind: type[Any], way: str, chat_script: ScriptedChat
) -> None:
    chat_script.reply = lambda request: LONG
    chat_script.step_seconds = 0.01
    model = kind(model="scripted", timeout=0.1)
    with pytest.raises(TimeoutError, match="`timeout`") as caught:
        list(getattr(model, way)(["Hi"] if way == "batch" else "Hi"))
    assert isinstance(caught.value, exceptions.ModelTimeoutError)
    assert caught.value.is_retryable
    wait_until(lambda: chat_script.cancelled == 1)
    assert chat_script.steps < 60
    chat_script.step_seconds = 0
    assert model.invoke("Hi", max_tokens=2)


@each
async def test_a_timeout_on_an_event_loop(kind: type[Any], chat_script: ScriptedChat) -> None:
    chat_script.reply = lambda request: LONG
    chat_script.step_seconds = 0.01
    model = kind(model="scripted")
    with pytest.raises(TimeoutError):
        await model.ainvoke("Hi", timeout=0.05)
    with pytest.raises(TimeoutError):
        [chunk async for chunk in model.astream("Hi", timeout=0.05)]
    assert chat_script.cancelled == 2


async def test_a_stream_that_core_bridges_to_events_is_cancellable_too(chat_script: ScriptedChat) -> None:
    chat_script.reply = lambda request: LONG
    chat_script.step_seconds = 0.005
    model = ChatDoppler(model="scripted", max_tokens=400)
    events = model.astream_events("Hi", version="v2")
    async for event in events:
        if event["event"] == "on_chat_model_stream":
            break
    await events.aclose()
    for _ in range(500):
        if chat_script.cancelled:
            break
        await asyncio.sleep(0.002)
    assert chat_script.cancelled == 1
