"""A model that makes its text in canvases: settled text streams as any text does, and who asks sees drafts beside it."""

import json
from dataclasses import replace
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.types import PydanticProgramMode
from pydantic import BaseModel

from doppler_core.errors import InputError
from doppler_plugins.llama_index import DopplerLLM
from tests.adapters.scripted_chat import CAPABILITIES, ScriptedChat, text_of
from tests.canvases import forming

ASKED = [ChatMessage(role="user", content="Hi")]
FIGURES = {"denoising_steps": 6, "tokens_per_forward": pytest.approx(2 / 6)}


@pytest.fixture(autouse=True)
def _canvases(chat_script: ScriptedChat) -> None:
    chat_script.canvases = forming()
    chat_script.capabilities = replace(CAPABILITIES, streams_drafts=True, structured=False, logprobs=False)


def test_tokens_per_forward_are_in_the_usage() -> None:
    llm = DopplerLLM(model="scripted")
    for response in (llm.chat(ASKED), llm.complete("Hi"), [*llm.stream_chat(ASKED)][-1]):
        assert response.raw is not None
        assert {name: response.raw["usage"][name] for name in FIGURES} == FIGURES
        assert response.additional_kwargs["tokens_per_forward"] == FIGURES["tokens_per_forward"]


def test_a_model_that_makes_a_token_at_a_time_has_no_such_figure(chat_script: ScriptedChat) -> None:
    chat_script.canvases = []
    assert not set(FIGURES) & set(DopplerLLM(model="scripted").chat(ASKED).additional_kwargs)


def test_nobody_sees_drafts_who_does_not_ask(chat_script: ScriptedChat) -> None:
    responses = list(DopplerLLM(model="scripted").stream_chat(ASKED))
    assert not any("draft" in response.additional_kwargs for response in responses)
    assert not chat_script.requests[0].drafts


@pytest.mark.parametrize("form", ["stream_chat", "stream_complete"])
def test_a_draft_comes_in_a_response_of_its_own_and_the_text_is_the_same(
    chat_script: ScriptedChat, form: str
) -> None:
    llm, prompt = DopplerLLM(model="scripted"), ASKED if form == "stream_chat" else "Hi"
    responses: list[Any] = list(getattr(llm, form)(prompt, drafts=True, steps=8))
    drafts = [one for response in responses if (one := response.additional_kwargs.get("draft"))]
    assert [(one["step"], one["done"]) for one in drafts] == [(n, n == 6) for n in range(1, 7)]
    assert drafts[0]["text"] == forming()[0].text
    assert (drafts[0]["accepted"], drafts[0]["entropy"]) == (5 / 16, forming()[0].entropy)
    assert json.loads(json.dumps(drafts)) == drafts
    assert "".join(response.delta for response in responses) == "Hello there."
    assert not any(response.delta for response in responses if "draft" in response.additional_kwargs)
    assert (chat_script.requests[0].drafts, chat_script.requests[0].steps) == (True, 8)


async def test_an_event_loop_sees_them_too() -> None:
    llm = DopplerLLM(model="scripted", drafts=True)
    responses = [response async for response in await llm.astream_chat(ASKED)]
    assert sum("draft" in response.additional_kwargs for response in responses) == 6
    assert responses[-1].message.content == "Hello there."


def test_an_answer_that_comes_whole_has_no_drafts_and_makes_none(chat_script: ScriptedChat) -> None:
    response = DopplerLLM(model="scripted", drafts=True).chat(ASKED)
    assert "draft" not in response.additional_kwargs
    assert not chat_script.requests[0].drafts


def test_objects_are_made_without_a_grammar_where_somebody_asks_for_that(chat_script: ScriptedChat) -> None:
    class Owl(BaseModel):
        name: str

    chat_script.reply = lambda request: '{"name": "Ida"}'
    chat_script.capabilities = replace(chat_script.capabilities, context_length=1000)
    llm = DopplerLLM(model="scripted", pydantic_program_mode=PydanticProgramMode.LLM)
    assert llm.structured_predict(Owl, PromptTemplate("An owl.")) == Owl(name="Ida")
    assert "schema" in text_of(chat_script.requests[-1].prompt).lower()
    assert chat_script.requests[-1].grammar is None


def test_a_model_without_canvases_says_so(chat_script: ScriptedChat) -> None:
    chat_script.capabilities, chat_script.canvases = CAPABILITIES, []
    llm = DopplerLLM(model="scripted", drafts=True)
    for ask in (llm.chat, lambda messages: list(llm.stream_chat(messages))):
        with pytest.raises(InputError, match="one token after the other"):
            ask(ASKED)
