"""`close()` on any class of either framework: whatever is asked after it is refused, and nothing is opened."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.messages import HumanMessage
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.schema import TextNode
from pydantic import BaseModel

from doppler_core.errors import EngineClosedError
from doppler_plugins.langchain import ChatDoppler, DopplerEmbeddings, DopplerLLM
from doppler_plugins.llama_index import DopplerEmbedding
from doppler_plugins.llama_index import DopplerLLM as LlamaLLM
from doppler_plugins.testing.llm_suite import gathered
from tests.adapters.scripted import Scripted
from tests.adapters.scripted_chat import ScriptedChat


class Bird(BaseModel):
    kind: str


async def drained(stream: Any) -> list[Any]:
    return [part async for part in stream]


ASKED = [ChatMessage(content="a")]
PROMPT = PromptTemplate("Tell of {what}.")
OTHER = {"model": "scripted-2"}

RUNNABLE: dict[str, Callable[[Any], Any]] = {
    "invoke": lambda model: model.invoke("a"),
    "ainvoke": lambda model: model.ainvoke("a"),
    "stream": lambda model: list(model.stream("a")),
    "astream": lambda model: drained(model.astream("a")),
    "batch": lambda model: model.batch(["a", "b"]),
    "abatch": lambda model: model.abatch(["a", "b"]),
    "invoke another": lambda model: model.invoke("a", **OTHER),
    "ainvoke another": lambda model: model.ainvoke("a", **OTHER),
    "stream another": lambda model: list(model.stream("a", **OTHER)),
    "astream another": lambda model: drained(model.astream("a", **OTHER)),
    "cached": lambda model: model.model_copy().invoke("a") and model.invoke("a"),
    "count": lambda model: model.get_num_tokens("a"),
    "warmup": lambda model: model.warmup(),
    "awarmup": lambda model: model.awarmup(),
}
CHAT = RUNNABLE | {
    "count messages": lambda model: model.get_num_tokens_from_messages([HumanMessage("a")]),
    "structured": lambda model: model.with_structured_output(Bird).invoke("a"),
    "profile": lambda model: model.profile["name"],
}
LLAMA: dict[str, Callable[[Any], Any]] = {
    "chat": lambda llm: llm.chat(ASKED),
    "achat": lambda llm: llm.achat(ASKED),
    "stream_chat": lambda llm: list(llm.stream_chat(ASKED)),
    "astream_chat": lambda llm: gathered(llm.astream_chat(ASKED)),
    "complete": lambda llm: llm.complete("a"),
    "acomplete": lambda llm: llm.acomplete("a"),
    "stream_complete": lambda llm: list(llm.stream_complete("a")),
    "astream_complete": lambda llm: gathered(llm.astream_complete("a")),
    "predict": lambda llm: llm.predict(PROMPT, what="a"),
    "apredict": lambda llm: llm.apredict(PROMPT, what="a"),
    "structured": lambda llm: llm.structured_predict(Bird, PROMPT, what="a"),
    "astructured": lambda llm: llm.astructured_predict(Bird, PROMPT, what="a"),
    "metadata": lambda llm: llm.metadata,
    "tokenizer": lambda llm: llm.tokenizer_fn("a"),
    "warmup": lambda llm: llm.warmup(),
}
VECTORS: dict[str, Callable[[Any], Any]] = {
    "embed_query": lambda one: one.embed_query("a"),
    "aembed_query": lambda one: one.aembed_query("a"),
    "embed_documents": lambda one: one.embed_documents(["a"]),
    "aembed_documents": lambda one: one.aembed_documents(["a"]),
    "titled": lambda one: one.embed_titled(["a"], ["b"]),
    "namespace": lambda one: one.cache_namespace,
}
LLAMA_VECTORS: dict[str, Callable[[Any], Any]] = {
    "query": lambda one: one.get_query_embedding("a"),
    "aquery": lambda one: one.aget_query_embedding("a"),
    "batch": lambda one: one.get_text_embedding_batch(["a"]),
    "abatch": lambda one: one.aget_text_embedding_batch(["a"]),
    "nodes": lambda one: one([TextNode(text="a")]),
    "anodes": lambda one: one.acall([TextNode(text="a", metadata={"title": "b"})]),
}
GENERATING: dict[type[Any], dict[str, Callable[[Any], Any]]] = {
    ChatDoppler: CHAT, DopplerLLM: RUNNABLE, LlamaLLM: LLAMA,
}  # fmt: skip
EMBEDDING = {DopplerEmbeddings: VECTORS, DopplerEmbedding: LLAMA_VECTORS}


def every(kinds: dict[type[Any], dict[str, Callable[[Any], Any]]]) -> list[Any]:
    return [
        pytest.param(kind, way, id=f"{kind.__module__.split('.')[1]} {kind.__name__} {name}")
        for kind, ways in kinds.items()
        for name, way in ways.items()
    ]


async def asked(way: Callable[[Any], Any], model: Any) -> Any:
    found = way(model)
    return await found if inspect.isawaitable(found) else found


def refused(model: Any, way: Callable[[Any], Any]) -> None:
    model.close()
    with pytest.raises(EngineClosedError, match="make a new one"):
        asyncio.run(asked(way, model))


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize(("kind", "way"), every(GENERATING))
def test_a_closed_model_answers_nothing(
    chat_script: ScriptedChat, kind: type[Any], way: Callable[[Any], Any], used: bool
) -> None:
    words = {} if kind is LlamaLLM else {"cache": InMemoryCache()}
    model = kind(model="scripted", **words)
    if used:
        model.warmup()
    opened = len(chat_script.opened)
    refused(model, way)
    assert len(chat_script.opened) == opened + len(chat_script.requests), (
        "but for a copy, which is not closed"
    )


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize(("kind", "way"), every(EMBEDDING))
def test_a_closed_model_embeds_nothing(
    script: Scripted, kind: type[Any], way: Callable[[Any], Any], used: bool
) -> None:
    model = kind(model="scripted")
    if used:
        model.warmup()
    refused(model, way)
    assert len(script.opened) == int(used)
