"""How long an answer may be where nobody says: the same in both frameworks, and what LlamaIndex is told."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage

from doppler_core.engine.request import Capabilities
from doppler_plugins.adapters.generating import answer_room
from doppler_plugins.langchain import ChatDoppler, DopplerLLM
from doppler_plugins.llama_index import DopplerLLM as LlamaLLM
from doppler_plugins.testing.llm_suite import gathered
from tests.adapters.scripted_chat import CAPABILITIES, ScriptedChat

CONTEXT = 200
ASKED = [ChatMessage(content="Go on.")]


async def drained(stream: Any) -> list[Any]:
    return [part async for part in stream]


Way = Callable[[Any], Any]
LANGCHAIN: dict[str, Way] = {
    "invoke": lambda model: model.invoke("Go on."),
    "ainvoke": lambda model: asyncio.run(model.ainvoke("Go on.")),
    "stream": lambda model: list(model.stream("Go on.")),
    "astream": lambda model: asyncio.run(drained(model.astream("Go on."))),
    "batch": lambda model: model.batch(["Go on."]),
}
LLAMA: dict[str, Way] = {
    "chat": lambda llm: llm.chat(ASKED),
    "achat": lambda llm: asyncio.run(llm.achat(ASKED)),
    "stream_chat": lambda llm: list(llm.stream_chat(ASKED)),
    "astream_chat": lambda llm: asyncio.run(gathered(llm.astream_chat(ASKED))),
    "complete": lambda llm: llm.complete("Go on."),
    "stream_complete": lambda llm: list(llm.stream_complete("Go on.")),
}
EVERY_WAY = [
    pytest.param(kind, way, id=f"{kind.__module__.split('.')[1]} {kind.__name__} {name}")
    for kind, ways in ((ChatDoppler, LANGCHAIN), (DopplerLLM, LANGCHAIN), (LlamaLLM, LLAMA))
    for name, way in ways.items()
]


@pytest.mark.parametrize(("kind", "way"), EVERY_WAY)
def test_a_model_that_finds_no_end_stops_after_a_quarter_of_the_context(
    chat_script: ScriptedChat, kind: type[Any], way: Way
) -> None:
    chat_script.reply = lambda request: "and so on " * CONTEXT
    way(kind(model="scripted"))
    way(kind(model="scripted", max_tokens=3))
    way(kind(model="scripted", max_tokens=CONTEXT))
    assert [request.max_tokens for request in chat_script.requests] == [CONTEXT // 4, 3, CONTEXT]


@pytest.mark.parametrize(("kind", "way"), EVERY_WAY)
def test_canvases_are_as_many_as_the_manifest_says(
    chat_script: ScriptedChat, kind: type[Any], way: Way
) -> None:
    chat_script.capabilities = replace(CAPABILITIES, streams_drafts=True)
    way(kind(model="scripted"))
    assert [request.max_tokens for request in chat_script.requests] == [None]


def test_llama_index_is_told_how_long_answers_may_be(chat_script: ScriptedChat) -> None:
    for words, told in (({}, CONTEXT // 4), ({"max_tokens": 7}, 7), ({"max_tokens": 150}, CONTEXT // 2)):
        llm = LlamaLLM(model="scripted", **words)
        llm.complete("Go on.")
        assert llm.metadata.num_output == told
    asked = [request.max_tokens for request in chat_script.requests]
    assert asked == [CONTEXT // 4, 7, 150], "of more than half of the context prompts would have too little"


def test_a_model_that_says_nothing_of_its_context_is_not_held_back() -> None:
    assert answer_room(Capabilities(generates=True)) is None
    assert answer_room(Capabilities(generates=True, context_length=8192)) == 2048
