"""LlamaIndex's messages in core's form: roles, every kind of block, calls and whose result is whose."""

import copy
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.base.llms.types import (
    AudioBlock,
    CacheControl,
    CachePoint,
    ChatMessage,
    CitableBlock,
    CitationBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    VideoBlock,
)

from doppler_core.errors import InputError, UnsupportedModalityError
from doppler_core.text.chat import Media, Message, Reasoning, Text, ToolCall, ToolResult
from doppler_core.text.chat.gemma4 import GEMMA4
from doppler_plugins.llama_index.messages import read_chat


def parts(*blocks: Any, role: str = "user", **more: Any) -> tuple[Any, ...]:
    (message,) = read_chat([ChatMessage(role=role, blocks=list(blocks), additional_kwargs=more)])
    return message.parts


@pytest.mark.parametrize(
    ("role", "read"),
    [
        ("system", "system"),
        ("developer", "developer"),
        ("user", "user"),
        ("assistant", "assistant"),
        ("chatbot", "assistant"),
        ("model", "assistant"),
    ],
)
def test_every_role_has_its_turn(role: str, read: str) -> None:
    assert read_chat([ChatMessage(role=role, content="a")]) == (Message(read, (Text("a"),)),)  # type: ignore[arg-type]


@pytest.mark.parametrize("role", ["tool", "function"])
def test_both_roles_of_tools_bring_results(role: str) -> None:
    assert parts(TextBlock(text="4"), role=role, name="add") == (ToolResult("4", "add"),)


def test_texts_side_by_side_are_one_with_a_line_break_as_content_has_it() -> None:
    blocks = [TextBlock(text="one"), TextBlock(text="two")]
    message = ChatMessage(blocks=blocks)
    assert parts(*blocks) == (Text(message.content or ""),)
    assert parts(blocks[0], ImageBlock(image=b"GIF89a"), blocks[1]) == (
        Text("one"),
        Media("image"),
        Text("two"),
    )


def test_an_empty_message_has_no_parts() -> None:
    assert parts() == ()
    assert parts(TextBlock(text="")) == (Text(""),)


def test_thoughts_and_calls_keep_their_places() -> None:
    found = parts(
        ThinkingBlock(content="hm"),
        ThinkingBlock(content=None),
        TextBlock(text="let me see"),
        ToolCallBlock(tool_call_id="1", tool_name="add", tool_kwargs={"a": [1, None]}),
        ToolCallBlock(tool_call_id="2", tool_name="add", tool_kwargs='{"a": "x"}'),
        role="assistant",
    )
    assert found == (
        Reasoning("hm"),
        Text("let me see"),
        ToolCall("add", {"a": [1, None]}, "1"),
        ToolCall("add", {"a": "x"}, "2"),
    )


@pytest.mark.parametrize("arguments", ["{", "[1]", "add 1 and 2"])
def test_arguments_that_are_no_object_are_an_error(arguments: str) -> None:
    with pytest.raises(InputError):
        parts(ToolCallBlock(tool_name="add", tool_kwargs=arguments), role="assistant")


def test_calls_that_other_integrations_keep_beside_the_blocks_are_read() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
    text = TextBlock(text="so")
    assert parts(text, role="assistant", tool_calls=[call]) == (Text("so"), ToolCall("add", {"a": 1}, "1"))
    block = ToolCallBlock(tool_call_id="1", tool_name="add", tool_kwargs={"a": 1})
    assert parts(block, role="assistant", tool_calls=[call]) == (ToolCall("add", {"a": 1}, "1"),)


@pytest.mark.parametrize("calls", [5, "ring", [5], [{"function": 5}], {"a": 1}])
def test_what_other_integrations_keep_and_is_no_call_is_an_error(calls: Any) -> None:
    kept = ChatMessage("Hi", role="assistant", additional_kwargs={"tool_calls": calls})
    with pytest.raises(InputError, match="call"):
        read_chat([kept])


def test_a_result_has_the_name_of_the_call_with_its_id() -> None:
    calls = [
        ToolCallBlock(tool_call_id="1", tool_name="add", tool_kwargs={}),
        ToolCallBlock(tool_call_id="2", tool_name="ring", tool_kwargs={}),
    ]
    found = read_chat(
        [
            ChatMessage(role="assistant", blocks=calls),
            ChatMessage(role="tool", content="dong", additional_kwargs={"tool_call_id": "2"}),
            ChatMessage(
                role="tool",
                blocks=[TextBlock(text="3"), TextBlock(text="4")],
                additional_kwargs={"tool_call_id": "1", "name": "somebody else's name"},
            ),
            ChatMessage(role="tool", content="?", additional_kwargs={"tool_call_id": "9"}),
        ]
    )
    assert [message.parts[0] for message in found[1:]] == [
        ToolResult("dong", "ring", "2"),
        ToolResult("3\n4", "add", "1"),
        ToolResult("?", "", "9"),
    ]


def test_a_thought_of_a_turn_before_is_not_told_again() -> None:
    said = ChatMessage(role="assistant", blocks=[ThinkingBlock(content="hidden"), TextBlock(text="shown")])
    pieces = GEMMA4.render(read_chat([ChatMessage(content="a"), said, ChatMessage(content="b")]))
    told = "".join(str(piece) for piece in pieces)
    assert "shown" in told
    assert "hidden" not in told


def test_media_keep_their_places_and_nothing_is_fetched() -> None:
    found = parts(
        ImageBlock(url="https://no-such-host.invalid/a.png"),
        AudioBlock(audio=b"RIFF", format="wav"),
        VideoBlock(video=b"mp4", video_mimetype="video/mp4"),
    )
    assert found == (Media("image"), Media("audio"), Media("video"))


def test_a_tool_result_that_is_an_image_is_an_error() -> None:
    with pytest.raises(InputError, match="message 0: expected a tool's result as text, got Media"):
        parts(ImageBlock(image=b"GIF89a"), role="tool")


def test_documents_that_are_text_are_read(tmp_path: Path) -> None:
    path = tmp_path / "ponds.md"
    path.write_text("They freeze över.", "utf-8")
    assert parts(DocumentBlock(path=path, title="Ponds", document_mimetype="text/markdown")) == (
        Text("Ponds:\nThey freeze över."),
    )
    block = DocumentBlock(data=b"They freeze.", title="Ponds", document_mimetype="text/plain")
    assert parts(block) == (Text("Ponds:\nThey freeze."),)


@pytest.mark.parametrize(
    ("block", "error"),
    [
        (DocumentBlock(data=b"%PDF-1.7", document_mimetype="application/pdf"), UnsupportedModalityError),
        (DocumentBlock(data=b"what is it"), UnsupportedModalityError),
        (DocumentBlock(url="https://no-such-host.invalid/a.txt"), InputError),
    ],
)
def test_documents_that_are_not_text_are_errors(block: DocumentBlock, error: type[Exception]) -> None:
    with pytest.raises(error, match="message 0, block 0: a document"):
        parts(block)


def test_what_is_cited_is_told_with_where_it_comes_from() -> None:
    citable = CitableBlock(title="Ponds", source="notes.txt", content=[TextBlock(text="They freeze.")])
    assert parts(citable) == (Text("Ponds (notes.txt):\nThey freeze."),)
    citation = CitationBlock(
        cited_content=TextBlock(text="They freeze."), source="s", title="t", additional_location_info={}
    )
    assert parts(citation, role="assistant") == (Text("They freeze."),)


def test_cache_points_say_nothing() -> None:
    assert parts(TextBlock(text="a"), CachePoint(cache_control=CacheControl(type="ephemeral"))) == (
        Text("a"),
    )


def test_what_is_no_message_is_named() -> None:
    with pytest.raises(InputError, match="message 1: expected a ChatMessage, got str"):
        read_chat([ChatMessage(content="a"), "b"])  # type: ignore[list-item]


def test_nothing_that_was_given_changes() -> None:
    messages = [
        ChatMessage(
            role="assistant",
            blocks=[ToolCallBlock(tool_call_id="1", tool_name="add", tool_kwargs={"a": {"b": []}})],
        ),
        ChatMessage(role="tool", content="1", additional_kwargs={"tool_call_id": "1"}),
    ]
    before = copy.deepcopy(messages)
    read_chat(messages)
    assert messages == before
