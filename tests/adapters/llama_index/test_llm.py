"""What DopplerLLM does beyond the contract: which requests its calls make, and what it makes of deltas."""

import asyncio
from typing import Any

import pytest
from llama_index.core import Settings
from llama_index.core.base.llms.types import ChatMessage, LogProb, TextBlock, ThinkingBlock, ToolCallBlock
from llama_index.core.llms import MockLLM
from llama_index.core.prompts import PromptTemplate
from pydantic import ValidationError

from doppler_core.engine.request import Capabilities, TokenLogprob
from doppler_core.errors import InputError, OutputError
from doppler_core.text.chat import Message, Text
from doppler_core.text.grammar import Regex
from doppler_plugins.llama_index import DopplerEmbedding, DopplerLLM, use_doppler
from doppler_plugins.llama_index.responses import logprobs_of
from tests.adapters.obedient import call
from tests.adapters.scripted_chat import ScriptedChat

ROOMY = Capabilities(generates=True, chat=True, tools=True, context_length=2000)
BASE = Capabilities(generates=True, context_length=100)


@pytest.fixture
def llm(chat_script: ScriptedChat) -> DopplerLLM:
    return DopplerLLM(model="scripted")


def asked(text: str) -> list[ChatMessage]:
    return [ChatMessage(content=text)]


def test_constructing_and_telling_of_it_open_nothing(llm: DopplerLLM, chat_script: ScriptedChat) -> None:
    assert llm.to_payload()["model"] == "scripted"
    assert llm.to_dict()["model"] == "scripted"
    assert chat_script.opened == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"temprature": 0.5}, "no word 'temprature': did you mean 'temperature'"),
        ({"context_windw": 10}, "did you mean 'context_window'"),
        ({"api_key": "secret"}, "no word 'api_key'"),
        ({"temperature": -1.0}, "temperature"),
        ({"max_tokens": -1}, "max_tokens"),
    ],
)
def test_a_wrong_word_is_a_value_error_at_construction(words: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        DopplerLLM(model="scripted", **words)


def test_words_of_other_classes_are_understood() -> None:
    llm = DopplerLLM(model_name="scripted", context_window=100, request_timeout=5.0)
    assert (llm.model, llm.context_length, llm.timeout) == ("scripted", 100, 5.0)


def test_the_words_of_a_call_beat_those_of_the_class(chat_script: ScriptedChat) -> None:
    llm = DopplerLLM(model="scripted", temperature=0.5, max_tokens=9, seed=3, stop=["END"])
    llm.chat(asked("a"), temperature=0.0, top_k=4)
    llm.complete("b", max_tokens=2, stop=["x", "y"])
    first, second = chat_script.requests
    assert (first.temperature, first.top_k, first.max_tokens, first.seed) == (0.0, 4, 9, 3)
    assert (second.temperature, second.max_tokens, second.stop) == (0.5, 2, ("x", "y"))


@pytest.mark.parametrize("form", ["chat", "stream_chat", "complete", "stream_complete"])
def test_what_a_call_can_not_say_is_an_error_at_once(llm: DopplerLLM, form: str) -> None:
    prompt: Any = asked("a") if "chat" in form else "a"
    with pytest.raises(InputError, match="no word 'tempratur': did you mean 'temperature'"):
        getattr(llm, form)(prompt, tempratur=0.1)
    with pytest.raises(InputError, match="no word 'tempratur'"):
        asyncio.run(getattr(llm, f"a{form}")(prompt, tempratur=0.1))
    for word, value in (("timeout", 0), ("temperature", "hot"), ("grammar", "a+")):
        with pytest.raises(InputError, match=word):
            getattr(llm, form)(prompt, **{word: value})
        with pytest.raises(InputError, match=word):
            asyncio.run(getattr(llm, f"a{form}")(prompt, **{word: value}))


def test_misspelt_words_of_tools_are_offered_too(llm: DopplerLLM) -> None:
    with pytest.raises(InputError, match="no word 'tool_choise': did you mean 'tool_choice'"):
        llm.chat(asked("a"), tool_choise="none")
    with pytest.raises(InputError, match="no word 'tools'"):
        llm.complete("a", tools=[])


def test_other_names_of_words_count_in_calls(llm: DopplerLLM, chat_script: ScriptedChat) -> None:
    chat_script.step_seconds = 0.2
    with pytest.raises(TimeoutError):
        llm.chat(asked("a"), request_timeout=0.05)
    llm.chat(asked("a"), max_new_tokens=1)
    assert chat_script.requests[-1].max_tokens == 1


def test_a_text_is_a_turn_of_the_user_for_a_model_that_holds_conversations(
    llm: DopplerLLM, chat_script: ScriptedChat
) -> None:
    llm.complete("a b")
    list(llm.stream_complete("a b"))
    llm.complete("a b", formatted=True)
    turn = (Message("user", (Text("a b"),)),)
    assert [request.prompt for request in chat_script.requests] == [turn, turn, "a b"]


def test_a_base_model_goes_on_with_texts(chat_script: ScriptedChat) -> None:
    chat_script.capabilities = BASE
    llm = DopplerLLM(model="scripted", max_tokens=7)
    said = llm.metadata
    assert (said.is_chat_model, said.is_function_calling_model) == (False, False)
    assert (said.context_window, said.num_output) == (100, 7)
    assert llm.predict(PromptTemplate("Tell of {what}"), what="ponds") == "Hello there."
    assert chat_script.requests[-1].prompt == "Tell of ponds"


def test_a_chat_format_that_is_named_counts(chat_script: ScriptedChat) -> None:
    chat_script.capabilities = BASE
    said = DopplerLLM(model="scripted", chat_format="gemma4").metadata
    assert (said.is_chat_model, said.is_function_calling_model) == (True, True)
    said = DopplerLLM(model="scripted", chat_format="gemma3").metadata
    assert (said.is_chat_model, said.is_function_calling_model) == (True, False)


def test_templates_of_the_user_replace_the_chat_format(chat_script: ScriptedChat) -> None:
    llm = DopplerLLM(
        model="scripted",
        completion_to_prompt=lambda prompt: f"Q: {prompt}\nA:",
        messages_to_prompt=lambda messages: "\n".join(str(message.content) for message in messages),
    )
    llm.complete("why")
    llm.complete("as it is", formatted=True)
    llm.chat([*asked("one"), *asked("two")])
    assert [request.prompt for request in chat_script.requests] == ["Q: why\nA:", "as it is", "one\ntwo"]


def test_room_for_output_leaves_room_for_a_prompt(chat_script: ScriptedChat) -> None:
    assert DopplerLLM(model="scripted").metadata.num_output == 50
    chat_script.capabilities = ROOMY
    assert DopplerLLM(model="scripted", precision="f16").metadata.num_output == 500
    assert DopplerLLM(model="scripted", precision="f16", max_tokens=5000).metadata.num_output == 1000


def test_thoughts_are_a_block_and_deltas_of_their_own(llm: DopplerLLM, chat_script: ScriptedChat) -> None:
    chat_script.reply = lambda request: "<|channel>thought\nHm, well.<channel|>It is."
    chunks = list(llm.stream_chat(asked("a"), thinking=True))
    assert chat_script.requests[-1].thinking
    assert "".join(chunk.additional_kwargs.get("thinking_delta", "") for chunk in chunks) == "Hm, well."
    assert "".join(chunk.delta or "" for chunk in chunks) == "It is."
    last = chunks[-1].message
    assert [type(block) for block in last.blocks] == [ThinkingBlock, TextBlock]
    assert (last.blocks[0].content, last.content) == ("Hm, well.", "It is.")
    assert last.blocks[0].num_tokens == chunks[-1].raw["usage"]["reasoning_tokens"] > 0
    whole = llm.chat(asked("a"))
    assert whole.message == last
    assert whole.delta is None
    assert "thinking_delta" not in whole.additional_kwargs


def test_a_call_that_cannot_be_read_is_told_of_and_never_run(
    llm: DopplerLLM, chat_script: ScriptedChat
) -> None:
    chat_script.reply = lambda request: '<|tool_call>call:pay{to:<|"|>Bob<|"|>,amount:10'
    response = llm.chat(asked("a"))
    assert llm.get_tool_calls_from_response(response, error_on_no_tool_call=False) == []
    assert response.message.content == ""
    (broken,) = response.additional_kwargs["invalid_tool_calls"]
    assert "amount:10" in broken["text"]
    with pytest.raises(OutputError, match="amount:10"):
        llm.get_tool_calls_from_response(response)
    chunks = list(llm.stream_chat(asked("a")))
    assert chunks[-1].additional_kwargs["invalid_tool_calls"][0]["error"] == broken["error"]
    assert all(chunk.message.content == "" for chunk in chunks)
    assert not any(isinstance(block, ToolCallBlock) for chunk in chunks for block in chunk.message.blocks)


@pytest.mark.parametrize(
    ("said", "name", "arguments"),
    [
        (
            '{loc:{city:<|"|>New, York<|"|>,geo:[1,-2.5e3]},stops:[{c:<|"|>Paris<|"|>},{c:<|"|>Ly}on<|"|>}],n:1}',
            "f",
            {
                "loc": {"city": "New, York", "geo": [1, -2500.0]},
                "stops": [{"c": "Paris"}, {"c": "Ly}on"}],
                "n": 1,
            },
        ),
        ("{}", "now", {}),
        (
            '{a:null,b:true,c:-0.5,d:<|"|>null<|"|>,e:<|"|>007<|"|>,f:[],h:{},i:<|"|><|"|>}',
            "g",
            {"a": None, "b": True, "c": -0.5, "d": "null", "e": "007", "f": [], "h": {}, "i": ""},
        ),
    ],
)
def test_arguments_arrive_as_they_were_meant(
    llm: DopplerLLM, chat_script: ScriptedChat, said: str, name: str, arguments: dict[str, Any]
) -> None:
    chat_script.reply = lambda request: f"<|tool_call>call:{name}{said}<tool_call|>"
    (*_, last) = llm.stream_chat(asked("a"))
    for response in (llm.chat(asked("a")), last):
        (call,) = llm.get_tool_calls_from_response(response)
        assert (call.tool_name, call.tool_kwargs) == (name, arguments)
        assert [type(value) for value in call.tool_kwargs.values()] == [
            type(one) for one in arguments.values()
        ]
        assert response.message.content is None


def test_calls_stand_behind_the_text_and_grow_with_the_stream(
    llm: DopplerLLM, chat_script: ScriptedChat
) -> None:
    chat_script.reply = lambda request: f"Let me see. {call('f', {'n': 1})}{call('f', {})}"
    chunks = list(llm.stream_chat(asked("a")))
    seen = [llm.get_tool_calls_from_response(chunk, error_on_no_tool_call=False) for chunk in chunks]
    assert sorted({len(found) for found in seen}) == [0, 1, 2]
    assert [len(found) for found in seen] == sorted(len(found) for found in seen)
    first, second = seen[-1]
    assert (first.tool_kwargs, second.tool_kwargs) == ({"n": 1}, {})
    assert first.tool_id != second.tool_id
    assert [len(chunk.message.additional_kwargs.get("tool_calls", [])) for chunk in chunks] == [
        len(found) for found in seen
    ]
    assert [type(block) for block in chunks[-1].message.blocks] == [TextBlock, ToolCallBlock, ToolCallBlock]
    assert chunks[-1].raw["finish_reason"] == "tool_calls"


def test_a_call_in_place_of_a_text_is_not_lost(llm: DopplerLLM, chat_script: ScriptedChat) -> None:
    chat_script.reply = lambda request: f"<|channel>thought\nHm.<channel|>{call('f', {})}"
    response = llm.complete("a")
    assert response.text == ""
    assert [one["function"]["name"] for one in response.additional_kwargs["tool_calls"]] == ["f"]
    deltas = [chunk.additional_kwargs.get("thinking_delta", "") for chunk in llm.stream_complete("a")]
    assert "".join(deltas) == "Hm."


def test_a_tool_that_changes_its_arguments_changes_no_message(
    llm: DopplerLLM, chat_script: ScriptedChat
) -> None:
    chat_script.reply = lambda request: call("f", {"deep": {"list": [1]}})
    response = llm.chat(asked("a"))
    llm.get_tool_calls_from_response(response)[0].tool_kwargs["deep"]["list"].append(2)
    assert llm.get_tool_calls_from_response(response)[0].tool_kwargs == {"deep": {"list": [1]}}


def test_an_answer_of_pages_is_quoted_by_its_end(llm: DopplerLLM, chat_script: ScriptedChat) -> None:
    chat_script.reply = lambda request: "word " * 900 + "end"
    with pytest.raises(OutputError, match="word end") as caught:
        llm.get_tool_calls_from_response(llm.chat(asked("a"), max_tokens=1000))
    assert len(str(caught.value)) < 300


def test_the_stop_text_that_ended_an_answer_is_told(llm: DopplerLLM) -> None:
    (*_, streamed) = llm.stream_complete("a", stop=["there", "."])
    for response in (llm.chat(asked("a"), stop="there"), llm.complete("a", stop="there"), streamed):
        assert response.raw["stop_sequence"] == response.additional_kwargs["stop_sequence"] == "there"
        assert response.raw["finish_reason"] == "stop"
    assert "stop_sequence" not in llm.chat(asked("a"), stop="that").raw


def test_logarithms_name_the_token_that_came_then_the_others(llm: DopplerLLM) -> None:
    response = llm.chat(asked("a"), logprobs=True, top_logprobs=2)
    assert response.logprobs is not None
    assert len(response.logprobs) == response.raw["usage"]["completion_tokens"]
    chunks = list(llm.stream_complete("a", logprobs=True))
    assert [len(chunk.logprobs or []) for chunk in chunks] == [1, 1, 2], "the last response has them all"
    alternatives = TokenLogprob(5, -1.5, ((7, -0.5), (5, -1.5), (9, -2.5)))
    assert logprobs_of(alternatives, None) == [LogProb(logprob=each) for each in (-1.5, -0.5, -2.5)]


def test_a_grammar_can_be_given_for_a_call(llm: DopplerLLM, chat_script: ScriptedChat) -> None:
    llm.chat(asked("a"), grammar=Regex("yes|no"))
    llm.complete("a", grammar=Regex("yes|no"))
    assert [request.grammar for request in chat_script.requests] == [Regex("yes|no")] * 2


def test_one_call_sets_the_models_of_everything(chat_script: ScriptedChat, monkeypatch: Any) -> None:
    monkeypatch.setattr(Settings, "_llm", MockLLM())
    monkeypatch.setattr(Settings, "_embed_model", None)
    monkeypatch.setattr("llama_index.core.global_tokenizer", None)
    llm = DopplerLLM(model="scripted")
    use_doppler(llm=llm, embed_model="demo-embedding")
    assert Settings.llm is llm
    assert Settings.embed_model.model_name == "demo-embedding"
    assert Settings.tokenizer == llm.tokenizer_fn
    use_doppler(llm="scripted", embed_model="demo-embedding")
    assert Settings.llm is not llm
    assert chat_script.opened == []


def test_a_model_in_the_others_place_changes_nothing(monkeypatch: Any) -> None:
    before = MockLLM()
    monkeypatch.setattr(Settings, "_llm", before)
    llm, embedding = DopplerLLM(model="scripted"), DopplerEmbedding(model="demo-embedding")
    for wrong, place in (
        ({"llm": embedding, "embed_model": llm}, "llm"),
        ({"llm": llm, "embed_model": llm}, "embed_model"),
    ):
        with pytest.raises(InputError, match=f"{place} is Doppler"):
            use_doppler(**wrong)
    assert Settings.llm is before
