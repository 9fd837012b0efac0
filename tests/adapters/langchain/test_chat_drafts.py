"""A model that makes its text in canvases: settled text streams as any text does, and who asks sees drafts beside it."""

import json
from dataclasses import replace
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.output_parsers import StrOutputParser

from doppler_core.errors import InputError
from doppler_plugins.langchain import ChatDoppler, DopplerLLM
from tests.adapters.langchain.test_chat_answers import both, streamed
from tests.adapters.obedient import call
from tests.adapters.scripted_chat import CAPABILITIES, ScriptedChat
from tests.canvases import forming

FIGURES = {"denoising_steps": 6, "tokens_per_forward": pytest.approx(2 / 6)}
FIRST = {
    "canvas": 0,
    "step": 1,
    "steps": 8,
    "done": False,
    "text": forming()[0].text,
    "entropy": forming()[0].entropy,
    "accepted": 5 / 16,
}


@pytest.fixture(autouse=True)
def _canvases(chat_script: ScriptedChat) -> None:
    chat_script.canvases = forming()
    chat_script.capabilities = replace(CAPABILITIES, streams_drafts=True, structured=False, logprobs=False)


def test_tokens_per_forward_are_in_the_metadata(chat_script: ScriptedChat) -> None:
    for message in both(ChatDoppler(model="scripted")):
        found = {name: message.response_metadata[name] for name in FIGURES}
        assert found == FIGURES
    result = DopplerLLM(model="scripted").generate(["Hi"]).generations[0][0]
    assert {name: result.generation_info[name] for name in FIGURES} == FIGURES  # type: ignore[index]


def test_a_model_that_makes_a_token_at_a_time_has_no_such_figure(chat_script: ScriptedChat) -> None:
    chat_script.canvases = []
    for message in both(ChatDoppler(model="scripted")):
        assert not set(FIGURES) & set(message.response_metadata)


def test_nobody_sees_drafts_who_does_not_ask(chat_script: ScriptedChat) -> None:
    chunks = list(ChatDoppler(model="scripted").stream("Hi"))
    assert not any(chunk.additional_kwargs for chunk in chunks)
    assert "".join(chunk.text for chunk in chunks) == "Hello there."
    assert not chat_script.requests[0].drafts


@pytest.mark.parametrize("at", ["construction", "call"])
def test_drafts_come_in_chunks_without_text_and_the_text_is_the_same(
    chat_script: ScriptedChat, at: str
) -> None:
    words = {"drafts": True, "steps": 8}
    model = ChatDoppler(model="scripted", **(words if at == "construction" else {}))
    chunks = list(model.stream("Hi", **(words if at == "call" else {})))
    drafts = [one for chunk in chunks for one in chunk.additional_kwargs.get("drafts", ())]
    assert drafts[0] == FIRST
    assert [(one["step"], one["done"]) for one in drafts] == [(n, n == 6) for n in range(1, 7)]
    assert not any(chunk.text for chunk in chunks if "drafts" in chunk.additional_kwargs)
    assert "".join(chunk.text for chunk in chunks) == "Hello there."
    assert (chat_script.requests[0].drafts, chat_script.requests[0].steps) == (True, 8)
    assert json.loads(json.dumps(drafts)) == drafts


@pytest.mark.parametrize("output_version", ["v0", "v1"])
@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("Hello there.", ["text"]),
        ("<|channel>thought\nHm.<channel|>I look it up.", ["reasoning", "text"]),
        ("I look it up." + call("f", {"n": 1}), ["text", "tool_call"]),
        (call("f", {"n": 1}), ["tool_call"]),
    ],
)
def test_added_chunks_hold_the_drafts_in_their_order_and_the_answer_as_it_is_without_them(
    chat_script: ScriptedChat, text: str, kinds: list[str], output_version: str
) -> None:
    chat_script.reply = lambda request: text
    tool = {"name": "f", "description": "", "parameters": {"type": "object", "properties": {}}}
    model = ChatDoppler(model="scripted", thinking="thought" in text, output_version=output_version)
    for asked in (model, model.bind_tools([tool])):
        bare, whole = streamed(asked), streamed(asked, drafts=True)
        assert [one["step"] for one in whole.additional_kwargs["drafts"]] == [1, 2, 3, 4, 5, 6]
        assert whole.text == bare.text
        assert [block["type"] for block in whole.content_blocks] == kinds
        assert [one["args"] for one in whole.tool_calls] == [one["args"] for one in bare.tool_calls]


def test_an_answer_that_comes_whole_has_no_drafts_and_makes_none(chat_script: ScriptedChat) -> None:
    message = ChatDoppler(model="scripted", drafts=True).invoke("Hi")
    assert message.additional_kwargs == {}
    assert not chat_script.requests[0].drafts


async def test_events_and_callbacks_get_drafts_too(chat_script: ScriptedChat) -> None:
    class Watching(BaseCallbackHandler):
        steps: list[int] = []  # noqa: RUF012 - of this one test

        def on_llm_new_token(self, token: str, *, chunk: Any = None, **kwargs: Any) -> None:
            message = chunk.message
            self.steps += [one["step"] for one in message.additional_kwargs.get("drafts", ())]

    model = ChatDoppler(model="scripted", drafts=True)
    events = [event async for event in model.astream_events("Hi", config={"callbacks": [Watching()]})]
    chunks = [event["data"]["chunk"] for event in events if event["event"] == "on_chat_model_stream"]
    assert sum("drafts" in chunk.additional_kwargs for chunk in chunks) == 6
    assert Watching.steps == [1, 2, 3, 4, 5, 6]


def test_a_graph_that_streams_messages_gets_drafts_too(chat_script: ScriptedChat) -> None:
    agent = create_agent(ChatDoppler(model="scripted", drafts=True), tools=[])
    asked = {"messages": [("user", "Hi")]}
    chunks = [chunk for chunk, _ in agent.stream(asked, stream_mode="messages")]  # type: ignore[arg-type]
    assert sum("drafts" in chunk.additional_kwargs for chunk in chunks) == 6
    assert "".join(chunk.text for chunk in chunks) == "Hello there."


def test_a_chain_reads_its_text_past_drafts(chat_script: ScriptedChat) -> None:
    chain = ChatDoppler(model="scripted", drafts=True) | StrOutputParser()
    assert "".join(chain.stream("Hi")) == "Hello there."


def test_an_answer_with_drafts_goes_back_into_a_conversation(chat_script: ScriptedChat) -> None:
    model = ChatDoppler(model="scripted", drafts=True)
    answer = streamed(model)
    assert model.invoke([("user", "Hi"), answer, ("user", "And?")]).text == "Hello there."


def test_texts_stream_drafts_for_callbacks(chat_script: ScriptedChat) -> None:
    found: list[Any] = []

    class Watching(BaseCallbackHandler):
        def on_llm_new_token(self, token: str, *, chunk: Any = None, **kwargs: Any) -> None:
            found.extend((chunk.generation_info or {}).get("drafts", ()))

    model = DopplerLLM(model="scripted", drafts=True)
    assert "".join(model.stream("Hi", config={"callbacks": [Watching()]})) == "Hello there."
    assert found[0] == FIRST
    assert len(found) == 6


def test_a_model_without_canvases_says_so_streaming_or_not(chat_script: ScriptedChat) -> None:
    chat_script.capabilities, chat_script.canvases = CAPABILITIES, []
    model = ChatDoppler(model="scripted", drafts=True)
    for ask in (model.invoke, lambda prompt: list(model.stream(prompt))):
        with pytest.raises(InputError, match="one token after the other"):
            ask("Hi")


def test_what_it_can_not_do_the_profile_says(chat_script: ScriptedChat) -> None:
    profile = ChatDoppler(model="scripted").profile
    assert profile is not None
    assert (profile["structured_output"], profile["tool_choice"], profile["tool_calling"]) == (
        False,
        False,
        True,
    )


@pytest.mark.parametrize("words", [{"steps": 0}, {"steps": True}, {"steps": 1.5}, {"drafts": 1}])
def test_words_of_canvases_are_checked_at_construction(words: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(words))):
        ChatDoppler(model="scripted", **words)


def test_drafts_change_nothing_but_what_streams_in_the_key_of_a_cache() -> None:
    one, other = (ChatDoppler(model="scripted", drafts=drafts) for drafts in (False, True))
    assert one._identifying_params != other._identifying_params
