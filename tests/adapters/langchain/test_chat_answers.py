"""What a model writes, in Gemma 4's wire format, as LangChain's messages and chunks; whole and streamed alike."""

import asyncio
import json
from typing import Any
from unittest.mock import ANY

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langchain_core.output_parsers import StrOutputParser

from doppler_core.engine.request import GenerateRequest
from doppler_plugins.langchain import ChatDoppler
from tests.adapters.obedient import call
from tests.adapters.scripted_chat import ScriptedChat

NESTED = (
    '<|tool_call>call:f{loc:{city:<|"|>New, York<|"|>,geo:[1,-2.5e3]},stops:[{c:<|"|>Paris<|"|>},'
    '{c:<|"|>Ly}on<|"|>}],n:1}<tool_call|>'
)
SCALARS = '<|tool_call>call:g{a:null,b:true,c:-0.5,d:<|"|>null<|"|>,e:<|"|>007<|"|>,f:[],h:{},i:<|"|><|"|>}<tool_call|>'
CUT = '<|tool_call>call:pay{to:<|"|>Bob<|"|>,amount:10'


def saying(script: ScriptedChat, text: str, **words: Any) -> ChatDoppler:
    script.reply = lambda request: text
    return ChatDoppler(model="scripted", **words)


def streamed(model: Any, prompt: Any = "Hi", **said: Any) -> AIMessageChunk:
    """All chunks of an answer, added as users add them."""
    whole: Any = None
    for chunk in model.stream(prompt, **said):
        whole = chunk if whole is None else whole + chunk
    assert isinstance(whole, AIMessageChunk)
    return whole


def both(model: Any, prompt: Any = "Hi", **said: Any) -> list[AIMessage]:
    """An answer got in one piece and in chunks, on threads and on an event loop."""

    async def on_a_loop() -> list[AIMessage]:
        chunks = [chunk async for chunk in model.astream(prompt, **said)]
        whole = chunks[0]
        for chunk in chunks[1:]:
            whole += chunk
        return [await model.ainvoke(prompt, **said), whole]

    return [model.invoke(prompt, **said), streamed(model, prompt, **said), *asyncio.run(on_a_loop())]


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        (NESTED, "f", {"loc": {"city": "New, York", "geo": [1, -2500.0]},
                       "stops": [{"c": "Paris"}, {"c": "Ly}on"}], "n": 1}),
        (SCALARS, "g", {"a": None, "b": True, "c": -0.5, "d": "null", "e": "007", "f": [], "h": {}, "i": ""}),
        (call("now", {}), "now", {}),
        (call("named", {"name": "你好"}), "named", {"name": "你好"}),
    ],
)  # fmt: skip
def test_a_call_is_whole_and_typed(
    chat_script: ScriptedChat, text: str, name: str, arguments: dict[str, Any]
) -> None:
    for message in both(saying(chat_script, text)):
        (found,) = message.tool_calls
        assert (found["name"], found["args"], found["type"]) == (name, arguments, "tool_call")
        assert found["id"]
        assert message.content == ""
        assert message.response_metadata["finish_reason"] == "tool_calls"
    for chunk in saying(chat_script, text).stream("Hi"):
        for fragment in chunk.tool_call_chunks:
            assert json.loads(fragment["args"]) == arguments, "a call never comes in halves"
            assert "\\u" not in fragment["args"]


@pytest.mark.parametrize("output_version", ["v0", "v1"])
def test_a_cut_call_is_never_one_to_run(chat_script: ScriptedChat, output_version: str) -> None:
    model = saying(chat_script, CUT + "00}<tool_call|>", max_tokens=5, output_version=output_version)
    for message in both(model):
        assert message.tool_calls == []
        (invalid,) = message.invalid_tool_calls
        assert invalid["name"] in ("pay", None)
        assert "Bob" in str(invalid["args"])
        assert message.text == ""
        assert message.response_metadata["finish_reason"] == "length"


@pytest.mark.parametrize("output_version", ["v0", "v1"])
@pytest.mark.parametrize(
    "text", [CUT, "<|tool_call>", "<|tool_call>{}<tool_call|>", CUT + "}<tool_call|>" + CUT]
)
def test_why_a_call_is_none_is_told_in_the_same_words_however_it_comes(
    chat_script: ScriptedChat, text: str, output_version: str
) -> None:
    model = saying(chat_script, text, output_version=output_version)
    whole, *others = both(model)
    (reason,) = [invalid["error"] for invalid in whole.invalid_tool_calls]
    assert reason
    (said,) = whole.additional_kwargs["invalid_tool_calls"]
    assert (said["error"], said["id"]) == (reason, whole.invalid_tool_calls[0]["id"])
    for message in others:
        assert message.additional_kwargs["invalid_tool_calls"] == [{**said, "id": ANY}]
    chunks = [chunk for chunk in model.stream("Hi") if chunk.invalid_tool_calls]
    assert [chunk.invalid_tool_calls[0]["error"] for chunk in chunks] == [reason]


@pytest.mark.parametrize("text", ["<|tool_call>", '<|tool_call>{"a": 1', "<|tool_call>{}<tool_call|>"])
def test_what_langchain_would_repair_into_a_call_stays_invalid(chat_script: ScriptedChat, text: str) -> None:
    model = saying(chat_script, text)
    for message in both(model):
        assert message.tool_calls == []
        assert len(message.invalid_tool_calls) == 1
    events = list(model.stream_events("Hi", version="v3"))
    assert "invalid_tool_call" in str(events)
    assert "'type': 'tool_call'," not in str(events)


@pytest.mark.parametrize("output_version", ["v0", "v1"])
def test_blocks_of_a_stream_never_run_into_each_other(chat_script: ScriptedChat, output_version: str) -> None:
    text = "<|channel>thought\nHm, tools.<channel|>I look it up." + call("f", {"n": 1}) + call("g", {"n": 2})
    model = saying(chat_script, text, thinking=True, output_version=output_version)
    for message in both(model):
        assert [one["name"] for one in message.tool_calls] == ["f", "g"]
        assert message.text == "I look it up."
        kinds = [block["type"] for block in message.content_blocks]
        assert kinds == ["reasoning", "text", "tool_call", "tool_call"]
        assert message.content_blocks[0]["reasoning"] == "Hm, tools."
        assert [block["args"] for block in message.content_blocks[2:]] == [{"n": 1}, {"n": 2}]


def test_text_before_calls_keeps_its_own_block(chat_script: ScriptedChat) -> None:
    for version in ("v0", "v1"):
        model = saying(chat_script, "Both." + call("f", {}) + call("f", {}), output_version=version)
        for message in both(model):
            assert message.text == "Both."
            assert [block["type"] for block in message.content_blocks] == ["text", "tool_call", "tool_call"]
            assert len({one["id"] for one in message.tool_calls}) == 2


@pytest.mark.parametrize(
    ("text", "answer", "thought"),
    [
        ("<|channel>thought\nT<channel|>A", "A", "T"),
        ("<|channel>thought\n<channel|>A", "A", ""),
        ("A", "A", ""),
    ],
)
def test_thoughts_are_blocks_and_no_text(
    chat_script: ScriptedChat, text: str, answer: str, thought: str
) -> None:
    model = saying(chat_script, text, thinking=True)
    for message in both(model):
        assert message.text == answer
        assert [b["reasoning"] for b in message.content_blocks if b["type"] == "reasoning"] == [thought][
            : bool(thought)
        ]
        assert isinstance(message.content, list) == bool(thought)
    assert (model | StrOutputParser()).invoke("Hi") == answer
    assert "".join((model | StrOutputParser()).stream("Hi")) == answer


def test_a_thought_without_an_end_is_no_answer(chat_script: ScriptedChat) -> None:
    model = saying(chat_script, "<|channel>thought\nand on and on<channel|>A", thinking=True, max_tokens=4)
    for message in both(model):
        assert message.text == ""
        assert message.response_metadata["finish_reason"] == "length"


def test_a_thought_that_the_prompt_has_opened_is_no_answer(chat_script: ScriptedChat) -> None:
    """After a tool's result Gemma 4's prompt has opened the thought: the reply begins within it."""
    asked = AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "c1", "type": "tool_call"}])
    history = [("human", "Hi"), asked, ToolMessage("3", tool_call_id="c1")]
    tool = {"name": "f", "description": "", "input_schema": {"type": "object", "properties": {}}}
    model = saying(chat_script, "T<channel|>A", thinking=True).bind_tools([tool])
    for message in both(model, history):
        assert message.text == "A"
        assert message.content_blocks[0]["reasoning"] == "T"


def test_earlier_thoughts_reach_core_as_thoughts(chat_script: ScriptedChat) -> None:
    model = saying(chat_script, "<|channel>thought\nT<channel|>A", thinking=True)
    first = model.invoke("Hi")
    model.invoke([("human", "Hi"), first, ("human", "And?")])
    said = chat_script.requests[-1].prompt[1].parts
    assert [type(part).__name__ for part in said] == ["Reasoning", "Text"]


def test_usage_and_ending_come_once(chat_script: ScriptedChat) -> None:
    model = saying(chat_script, "One two three.", max_tokens=9)
    chunks = list(model.stream("a b c d"))
    assert [bool(chunk.usage_metadata) for chunk in chunks] == [False] * 3 + [True]
    assert [chunk.chunk_position for chunk in chunks] == [None] * 3 + ["last"]
    for message in both(model, "a b c d"):
        assert message.response_metadata["model_name"] == "scripted"
        assert message.response_metadata["model_provider"] == "doppler"
        assert message.response_metadata["finish_reason"] == "stop"
        usage = message.usage_metadata
        assert usage is not None
        assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
        assert usage["input_token_details"]["cache_read"] == usage["input_tokens"] // 2
        assert usage["output_token_details"] == {"reasoning": 0}


def test_the_stop_text_that_ended_an_answer_is_told(chat_script: ScriptedChat) -> None:
    for stop, told in (([" two", "two three"], " two"), (["four"], None)):
        for message in both(saying(chat_script, "One two three."), stop=stop):
            assert message.response_metadata.get("stop_sequence") == told
            assert message.response_metadata["finish_reason"] == "stop"
            assert message.text == ("One two three." if told is None else "One")


def test_logprobs_come_with_each_token(chat_script: ScriptedChat) -> None:
    for said, count in (({"logprobs": True}, 0), ({"top_logprobs": 2}, 2)):
        for message in both(saying(chat_script, "One two three."), **said):
            found = message.response_metadata["logprobs"]["content"]
            assert len(found) == 3
            assert {len(one["top_logprobs"]) for one in found} == {count}
    assert "logprobs" not in saying(chat_script, "One").invoke("Hi").response_metadata


def test_tokens_of_an_invoke_reach_callbacks_once(chat_script: ScriptedChat) -> None:
    from langchain_core.callbacks import BaseCallbackHandler

    class Tokens(BaseCallbackHandler):
        def __init__(self) -> None:
            self.seen: list[str] = []

        def on_llm_new_token(self, token: Any, **_: Any) -> None:
            self.seen.append(str(token))

    model = saying(chat_script, "One two three.")
    for answer in (
        lambda config: model.invoke("Hi", config),
        lambda config: list(model.stream("Hi", config)),
        lambda config: asyncio.run(model.ainvoke("Hi", config)),
    ):
        handler = Tokens()
        answer({"callbacks": [handler]})
        assert "".join(handler.seen) == "One two three."


def test_a_stream_left_half_read_gives_the_request_up(chat_script: ScriptedChat) -> None:
    model = saying(chat_script, "word " * 1000, max_tokens=1000)
    chat_script.step_seconds = 0.002
    stream = model.stream("Hi")
    next(stream)
    assert saying(chat_script, "Next.").invoke("Hi").text == "Next."
    stream.close()
    from tests.adapters.scripted import wait_until

    wait_until(lambda: chat_script.cancelled == 1)
    assert chat_script.steps < 500


def test_an_answer_to_nothing_is_an_error_of_the_request(chat_script: ScriptedChat) -> None:
    def refuse(request: GenerateRequest) -> str:
        raise ValueError("a driver's own mistake")

    chat_script.reply = refuse
    with pytest.raises(ValueError, match="a driver's own mistake"):
        list(ChatDoppler(model="scripted").stream("Hi"))
