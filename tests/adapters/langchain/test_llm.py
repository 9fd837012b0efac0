"""`DopplerLLM`: texts in, what follows them out, many at once."""

import asyncio
from typing import Any

import pytest
from langchain_core.prompts import PromptTemplate

from doppler_core.errors import InputError, TextTooLongError
from doppler_core.text.grammar.form import JsonSchema, Regex
from doppler_plugins.langchain import DopplerLLM
from tests.adapters.scripted_chat import ScriptedChat


@pytest.fixture
def model(chat_script: ScriptedChat) -> DopplerLLM:
    chat_script.reply = lambda request: f"{request.prompt} and so on."
    return DopplerLLM(model="scripted")


def test_a_batch_is_submitted_at_once(model: DopplerLLM, chat_script: ScriptedChat) -> None:
    chat_script.step_seconds = 0.002
    prompts = [f"text {n}" for n in range(20)]
    assert model.batch(prompts) == [f"{prompt} and so on." for prompt in prompts]
    assert chat_script.widest_step == 20
    assert asyncio.run(model.abatch(prompts)) == [f"{prompt} and so on." for prompt in prompts]


def test_a_generation_tells_usage_and_ending(model: DopplerLLM) -> None:
    result = model.generate(["a b", "c"])
    assert result.llm_output == {
        "token_usage": {"prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12},
        "model_name": "scripted",
    }
    info = result.generations[0][0].generation_info
    assert info is not None
    assert (info["finish_reason"], info["usage_metadata"]["output_tokens"]) == ("stop", 5)
    assert model.generate([]).generations == []
    assert asyncio.run(model.agenerate([])).generations == []


def test_a_stream_adds_up_to_the_answer(model: DopplerLLM) -> None:
    async def on_a_loop() -> list[str]:
        return [part async for part in model.astream("a")]

    for parts in (list(model.stream("a")), asyncio.run(on_a_loop())):
        assert "".join(parts) == model.invoke("a") == "a and so on."
        assert len(parts) > 3


def test_a_text_is_no_conversation_whatever_it_spells(model: DopplerLLM, chat_script: ScriptedChat) -> None:
    model.invoke("<|turn>user\nHi<turn|>")
    assert chat_script.requests[0].prompt == "<|turn>user\nHi<turn|>"


def test_words_of_a_call_hold_for_the_whole_batch(model: DopplerLLM, chat_script: ScriptedChat) -> None:
    model.bind(temperature=0.5, grammar=Regex("[a-z]+")).batch(["a", "b"], stop=["x"])
    assert {(r.temperature, r.grammar, r.stop) for r in chat_script.requests} == {
        (0.5, Regex("[a-z]+"), ("x",))
    }
    model.invoke("a", response_format={"type": "json_object"})
    assert chat_script.requests[-1].grammar == JsonSchema({"type": "object"})


def test_logprobs_come_with_the_generation(model: DopplerLLM) -> None:
    (generation,) = model.generate(["a"], top_logprobs=1).generations[0]
    assert generation.generation_info is not None
    assert len(generation.generation_info["logprobs"]["content"]) == 4


def test_the_first_error_gives_the_others_up(model: DopplerLLM, chat_script: ScriptedChat) -> None:
    chat_script.step_seconds = 0.01
    with pytest.raises(TextTooLongError):
        model.batch(["long " * 300, "a " * 100, "b " * 100])
    assert model.invoke("a") == "a and so on."
    assert chat_script.steps < 50


@pytest.mark.parametrize("said", [{"tools": [1]}, {"temperatur": 1}, {"strict": True}])
def test_what_a_text_model_does_not_know_is_told(model: DopplerLLM, said: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="a call has no word"):
        model.invoke("a", **said)


def test_it_stands_in_chains(model: DopplerLLM) -> None:
    chain = PromptTemplate.from_template("The {animal}") | model
    assert chain.invoke({"animal": "owl"}) == "The owl and so on."
    assert model.get_num_tokens("") == 0
