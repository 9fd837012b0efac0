"""LangChain's messages as core's: every form of content, every role, and what is refused."""

import base64
import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core import exceptions
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from pydantic import ValidationError

from doppler_core.errors import InputError
from doppler_core.text.chat.messages import Media, Message, Reasoning, Text, ToolCall, ToolResult
from doppler_plugins.langchain import ChatDoppler
from doppler_plugins.langchain.counting import countable
from doppler_plugins.langchain.messages import core_messages
from doppler_plugins.langchain.parts import MEDIA
from tests.adapters.scripted_chat import ScriptedChat

PNG = base64.b64encode(b"pixels").decode()
IMAGE = Media("image", b"pixels", "image/png")
CALL = {"name": "f", "args": {"n": 1}, "id": "c1", "type": "tool_call"}


def only(message: BaseMessage) -> Message:
    (found,) = core_messages([message])
    return found


@pytest.mark.parametrize(
    ("message", "role"),
    [
        (SystemMessage("a"), "system"),
        (SystemMessage("a", additional_kwargs={"__openai_role__": "developer"}), "developer"),
        (HumanMessage("a"), "user"),
        (AIMessage("a"), "assistant"),
        (ChatMessage("a", role="user"), "user"),
        (ChatMessage("a", role="developer"), "developer"),
    ],
)
def test_roles(message: BaseMessage, role: str) -> None:
    assert only(message) == Message(role, (Text("a"),))  # type: ignore[arg-type]


@pytest.mark.parametrize("message", [{"role": "user", "content": "a"}, ("user", "a"), "a", None])
def test_what_is_no_message_yet_is_named(message: Any) -> None:
    with pytest.raises(InputError, match=r"^message 0: .*: expected a message"):
        core_messages([message])


def test_a_name_of_who_speaks_is_kept() -> None:
    assert only(HumanMessage("a", name="Ann")).name == "Ann"


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("", ()),
        ("a", (Text("a"),)),
        (["a", {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}], (Text("a"), Text("b"))),
        ([{"type": "text-plain", "text": "a", "mime_type": "text/plain"}], (Text("a"),)),
        ([{"type": "image", "base64": PNG, "mime_type": "image/png"}], (IMAGE,)),
        ([{"type": "image", "source_type": "base64", "data": PNG, "mime_type": "image/png"}], (IMAGE,)),
        ([{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}], (IMAGE,)),
        ([{"type": "image", "url": f"data:image/png;base64,{PNG}"}], (IMAGE,)),
        ([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}], (IMAGE,)),
        ([{"type": "input_audio", "input_audio": {"format": "wav", "data": PNG}}],
         (Media("audio", b"pixels", "audio/wav"),)),
        ([{"type": "video", "base64": PNG, "mime_type": "video/mp4"}],
         (Media("video", b"pixels", "video/mp4"),)),
    ],
)  # fmt: skip
def test_content_of_a_user(content: Any, parts: tuple[Any, ...]) -> None:
    assert only(HumanMessage(content)).parts == parts


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (
            [{"type": "image", "url": "https://example.org/a.png"}],
            "https://example.org/a.png.*fetch it first",
        ),
        ([{"type": "image", "file_id": "x"}], "file_id"),
        ([{"type": "image", "base64": "***", "mime_type": "image/png"}], "base64"),
        ([{"type": "file", "base64": PNG, "mime_type": "application/pdf"}], "'file'"),
        ([{"type": "video_note", "x": 1}], "'video_note'"),
        ([{"type": "non_standard", "value": {"type": "non_standard", "value": {}}}], "type None"),
        ([{"type": "text", "text": "a"}, {"type": "thinking", "thinking": 7}], "1: a thinking block"),
    ],
)
def test_content_that_nobody_can_read_is_named(
    content: Any, complaint: str, chat_script: ScriptedChat
) -> None:
    with pytest.raises(InputError, match=f"message 1, part.*{complaint}") as caught:
        ChatDoppler(model="scripted").invoke([SystemMessage("s"), HumanMessage(content)])
    assert isinstance(caught.value, exceptions.ModelInvalidRequestError)
    assert not caught.value.is_retryable


def test_nothing_can_be_removed_from_a_conversation_here() -> None:
    with pytest.raises(InputError, match="message 0: RemoveMessage"):
        core_messages([RemoveMessage(id="1")])


@pytest.mark.parametrize(
    "message",
    [
        AIMessage("a", tool_calls=[CALL]),  # type: ignore[list-item]
        AIMessage([{"type": "text", "text": "a"}], tool_calls=[CALL]),  # type: ignore[list-item]
        AIMessage(content_blocks=[{"type": "text", "text": "a"}, CALL]),  # type: ignore[list-item]
        AIMessage(
            [{"type": "text", "text": "a"}, {"type": "tool_use", "id": "c1", "name": "f", "input": {"n": 1}}],
            tool_calls=[CALL],  # type: ignore[list-item]
        ),
    ],
)
def test_a_call_is_one_call_however_it_is_written(message: AIMessage) -> None:
    assert only(message).parts == (Text("a"), ToolCall("f", {"n": 1}, "c1"))


def test_calls_without_ids_are_all_there() -> None:
    calls = [{"name": "f", "args": {"n": n}, "id": None} for n in (1, 2)]
    assert only(AIMessage("", tool_calls=calls)).parts == (  # type: ignore[arg-type]
        ToolCall("f", {"n": 1}),
        ToolCall("f", {"n": 2}),
    )


def test_calls_that_never_ran_and_empty_answers_are_no_parts() -> None:
    invalid = [{"name": "f", "args": "{", "id": "c", "error": "cut", "type": "invalid_tool_call"}]
    assert only(AIMessage("", invalid_tool_calls=invalid)).parts == ()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "message",
    [
        AIMessage([{"type": "reasoning", "reasoning": "T"}, {"type": "text", "text": "A"}]),
        AIMessage("A", additional_kwargs={"reasoning_content": "T"}),
        AIMessage([{"type": "thinking", "thinking": "T", "signature": "s"}, {"type": "text", "text": "A"}]),
    ],
)
def test_thoughts(message: AIMessage) -> None:
    assert only(message).parts == (Reasoning("T"), Text("A"))


def test_a_result_names_its_call() -> None:
    asked = AIMessage("", tool_calls=[CALL])  # type: ignore[list-item]
    plain = ToolMessage("3", tool_call_id="c1")
    assert core_messages([asked, plain])[1] == Message("tool", (ToolResult("3", "", "c1"),))
    failed = ToolMessage("no", tool_call_id="c1", name="g", status="error")
    assert core_messages([asked, failed])[1] == Message("tool", (ToolResult("no", "g", "c1", True),))


def test_content_of_a_result() -> None:
    def parts(content: Any) -> tuple[Any, ...]:
        return only(ToolMessage(content, tool_call_id="c1", name="f")).parts

    assert parts([{"type": "text", "text": "a"}, "b"]) == (ToolResult("ab", "f", "c1"),)
    assert parts([{"rows": 1}, {"rows": 2}]) == (ToolResult([{"rows": 1}, {"rows": 2}], "f", "c1"),)
    image = {"type": "image", "base64": PNG, "mime_type": "image/png"}
    assert parts([{"type": "text", "text": "a"}, image]) == (ToolResult("a", "f", "c1"), IMAGE)
    assert only(FunctionMessage("3", name="f")).parts == (ToolResult("3", "f"),)


def test_results_that_a_user_brings_are_a_turn_of_the_tool() -> None:
    result = {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": [{"type": "text", "text": "g"}],
        "is_error": True,
    }
    asked = HumanMessage([result, {"type": "text", "text": "w"}])
    assert core_messages([asked]) == (
        Message("tool", (ToolResult("g", "", "c1", True),)),
        Message("user", (Text("w"),)),
    )
    assert [message.role for message in core_messages([HumanMessage([result])])] == ["tool"]


def test_a_part_of_a_conversation_is_made_one_that_can_be_read() -> None:
    history = core_messages([
        HumanMessage("a"),
        AIMessage("", tool_calls=[CALL, CALL | {"id": "c2"}]),  # type: ignore[list-item]
        ToolMessage("3", tool_call_id="c1"),
        ToolMessage("4", tool_call_id="c2"),
        AIMessage("b"),
    ])  # fmt: skip
    assert countable(history) == history
    call = Message("assistant", (ToolCall("tool", {}, "c2"),))
    assert countable(history[3:]) == (call, *history[3:])
    assert countable(history[:3]) == (*history[:3], Message("tool", (ToolResult("", "f", "c2"),)))
    empty = Message("tool", (ToolResult("", "f", "c1"), ToolResult("", "f", "c2")))
    assert countable((*history[:2], history[4])) == (*history[:2], empty, history[4])


KINDS = st.sampled_from((*MEDIA, "text", "text-plain", "refusal", "reasoning", "thinking", "tool_use", "tool_result",
                         "tool_call", "tool_call_chunk", "image_url", "input_audio", "file", "non_standard", "other"))  # fmt: skip
KEYS = st.sampled_from(("text", "reasoning", "thinking", "base64", "url", "image_url", "input_audio", "mime_type", "source",
                        "source_type", "data", "id", "name", "args", "input", "content", "tool_use_id", "value"))  # fmt: skip
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(("", "a", PNG, f"data:image/png;base64,{PNG}")),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=4,
)
BLOCKS = st.text(max_size=3) | st.builds(
    lambda kind, rest: {"type": kind} | rest, KINDS, st.dictionaries(KEYS, VALUES)
)
PROVIDERS = st.sampled_from(("", "openai", "anthropic", "google_genai", "bedrock_converse"))


@given(st.lists(BLOCKS, max_size=3), PROVIDERS)
def test_whatever_the_blocks_hold_they_are_read_or_named(content: list[Any], provider: str) -> None:
    messages: list[BaseMessage] = [HumanMessage(content), ToolMessage(content, tool_call_id="c1")]
    with contextlib.suppress(ValidationError, TypeError):  # LangChain reads some calls when a message is made
        messages.append(AIMessage(content, response_metadata={"model_provider": provider}))
    for message in messages:
        with contextlib.suppress(InputError):
            assert {found.role for found in core_messages([message])} <= {"user", "assistant", "tool"}
