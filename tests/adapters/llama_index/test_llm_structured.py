"""Structured predictions: the request that they make, what is read of an answer, and when others do it."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from llama_index.core.prompts import PromptTemplate
from llama_index.core.types import PydanticProgramMode
from pydantic import BaseModel, RootModel, ValidationError, field_validator

from doppler_core.errors import InputError, OutputError
from doppler_core.text.grammar import JsonSchema
from doppler_plugins.llama_index import DopplerLLM
from doppler_plugins.testing.llm_suite import gathered
from tests.adapters.obliging import oblige
from tests.adapters.scripted_chat import CAPABILITIES, ScriptedChat

PROMPT = PromptTemplate("What was seen? {what}")


class Bird(BaseModel):
    kind: str
    count: int = 1


class Shy(Bird):
    @field_validator("count")
    @classmethod
    def _few(cls, count: int) -> int:
        if count > 2:
            raise ValueError("too many")
        return count


class Engineered(BaseModel):
    part: Callable[[int], int]  # JSON has no form for it


class Counts(RootModel[list[int]]):
    pass


class Count(RootModel[float]):
    pass


@pytest.fixture
def llm(chat_script: ScriptedChat) -> DopplerLLM:
    return DopplerLLM(model="scripted", system_prompt="You watch birds.")


def test_the_schema_is_the_grammar_and_the_prompt_is_told_as_it_is(
    llm: DopplerLLM, chat_script: ScriptedChat
) -> None:
    chat_script.reply = oblige
    llm.structured_predict(Bird, PROMPT, llm_kwargs={"seed": 7, "tool_required": True}, what="An owl.")
    (request,) = chat_script.requests
    assert request.grammar == JsonSchema(Bird.model_json_schema())
    assert (request.seed, request.tools) == (7, ())
    assert [message.text for message in request.prompt] == ["You watch birds.", "What was seen? An owl."]


def test_objects_grow_and_the_last_one_is_of_the_class(llm: DopplerLLM, chat_script: ScriptedChat) -> None:
    chat_script.reply = lambda request: '{"kind": "barn owl", "count": 2}'
    objects = list(llm.stream_structured_predict(Bird, PROMPT, what="Owls."))
    kinds = [one.kind for one in objects]
    assert kinds == sorted(kinds, key=lambda kind: len(kind or ""))
    assert [isinstance(one, Bird) for one in objects] == [False] * (len(objects) - 1) + [True]
    assert objects[-1] == Bird(kind="barn owl", count=2)


def test_what_is_no_object_is_streamed_whole(llm: DopplerLLM, chat_script: ScriptedChat) -> None:
    chat_script.reply = lambda request: "[1, 2]"
    assert list(llm.stream_structured_predict(Counts, PROMPT, what="")) == [Counts([1, 2])]


WAYS: dict[str, Callable[..., Any]] = {
    "structured_predict": lambda llm, *said, **more: llm.structured_predict(*said, **more),
    "astructured_predict": lambda llm, *said, **more: asyncio.run(llm.astructured_predict(*said, **more)),
    "stream": lambda llm, *said, **more: list(llm.stream_structured_predict(*said, **more)),
    "astream": lambda llm, *said, **more: asyncio.run(
        gathered(llm.astream_structured_predict(*said, **more))
    ),
    "as_structured_llm": lambda llm, kind, prompt, llm_kwargs, **args: llm.as_structured_llm(kind).complete(
        prompt.format(**args), **llm_kwargs
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("kind", "answer", "words", "complaint"),
    [
        (Bird, '{"kind": "barn owl", "count": 2}', {"max_tokens": 2}, "Bird: the answer was cut at max_tokens.*barn"),
        (Bird, '{"kind": "barn owl", "count": 2}', {"stop": ["owl", "x"]}, "at the stop text 'owl'.*barn "),
        (Bird, '{"kind": "barn owl", "count": 2}', {"stop": "{"}, "at the stop text '{'.*before it begins"),
        (Counts, "[1, 2]", {"stop": "2"}, "at the stop text '2'"),
        (Count, "12.5", {"stop": "."}, r"at the stop text '\.'.*'12'"),
        (Count, "12 5", {"max_tokens": 1}, "cut at max_tokens.*12"),
        (Bird, "I saw an owl.", {}, "Bird: the answer is not JSON"),
    ],
)  # fmt: skip
def test_an_answer_that_is_not_whole_is_an_error_that_says_what_cut_it(
    llm: DopplerLLM, chat_script: ScriptedChat, way: str, kind: Any, answer: str, words: Any, complaint: str
) -> None:
    chat_script.reply = lambda request: answer
    with pytest.raises(OutputError, match=complaint):
        WAYS[way](llm, kind, PROMPT, llm_kwargs=words, what="")


@pytest.mark.parametrize("way", WAYS)
def test_a_stop_text_that_never_comes_cuts_nothing(
    llm: DopplerLLM, chat_script: ScriptedChat, way: str
) -> None:
    chat_script.reply = lambda request: '{"kind": "barn owl", "count": 2}'
    WAYS[way](llm, Bird, PROMPT, llm_kwargs={"stop": ["}}"], "max_tokens": 5}, what="")


def test_what_only_the_class_refuses_is_its_own_error(llm: DopplerLLM, chat_script: ScriptedChat) -> None:
    chat_script.reply = lambda request: '{"kind": "owl", "count": 3}'
    with pytest.raises(ValidationError, match="too many"):
        llm.structured_predict(Shy, PROMPT, what="")
    with pytest.raises(ValidationError, match="too many"):
        asyncio.run(llm.astructured_predict(Shy, PROMPT, what=""))


@pytest.mark.parametrize("described", [None, 5, int, dict, BaseModel, Engineered])
def test_what_describes_no_object_is_an_error_of_ours(
    llm: DopplerLLM, chat_script: ScriptedChat, described: Any
) -> None:
    with pytest.raises(InputError, match="no schema"):
        llm.structured_predict(described, PromptTemplate("a"))
    with pytest.raises(InputError, match="no schema"):
        next(iter(llm.stream_structured_predict(described, PromptTemplate("a"))))


def test_a_base_model_goes_on_with_the_prompt_under_the_grammar(chat_script: ScriptedChat) -> None:
    chat_script.reply = oblige
    chat_script.capabilities = replace(CAPABILITIES, chat=False, tools=False)
    llm = DopplerLLM(model="scripted")
    assert llm.structured_predict(Bird, PROMPT, what="An owl.").count == 1
    assert list(llm.stream_structured_predict(Bird, PROMPT, what="An owl."))[-1].count == 1
    assert [request.prompt for request in chat_script.requests] == ["What was seen? An owl."] * 2


@pytest.mark.parametrize("form", ["structured_predict", "astructured_predict"])
def test_another_mode_is_llama_indexs_own_program(chat_script: ScriptedChat, form: str) -> None:
    chat_script.reply = oblige
    llm = DopplerLLM(model="scripted", pydantic_program_mode=PydanticProgramMode.FUNCTION)
    found = getattr(llm, form)(Bird, PROMPT, what="An owl.")
    assert isinstance(asyncio.run(found) if asyncio.iscoroutine(found) else found, Bird)
    (request,) = chat_script.requests
    assert (request.grammar, request.tool_choice, len(request.tools)) == (None, "required", 1)


def test_a_model_without_grammars_is_asked_in_words(chat_script: ScriptedChat) -> None:
    chat_script.capabilities = replace(CAPABILITIES, structured=False, tools=False, context_length=1000)
    chat_script.reply = lambda request: 'Here: {"kind": "owl"}'
    llm = DopplerLLM(model="scripted")
    assert llm.structured_predict(Bird, PROMPT, what="An owl.") == Bird(kind="owl")
    assert chat_script.requests[0].grammar is None
    assert "schema" in chat_script.requests[0].prompt[-1].text


def test_a_program_streams_the_object_of_a_call(chat_script: ScriptedChat) -> None:
    chat_script.reply = lambda request: '<|tool_call>call:Bird{count:2,kind:<|"|>owl<|"|>}<tool_call|>'
    llm = DopplerLLM(model="scripted", pydantic_program_mode=PydanticProgramMode.FUNCTION)
    assert list(llm.stream_structured_predict(Bird, PROMPT, what=""))[-1] == Bird(kind="owl", count=2)
