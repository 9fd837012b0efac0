"""Conversations and tools are read from whatever chat APIs and frameworks write, and refused with the place of a fault."""

import base64
from typing import Any

import pytest

from doppler_core.errors import InputError, UnsupportedModalityError
from doppler_core.text.chat import (
    InvalidToolCall,
    Media,
    Message,
    Reasoning,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    format_named,
    read_messages,
    read_tools,
)

USER = {"role": "user", "content": "a"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


def call(arguments: Any, name: str = "f", **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


def said(**message: Any) -> Message:
    """A message, read."""
    (found,) = read_messages([{"content": None, **message}])
    return found


def test_calls_have_their_arguments_as_objects_or_as_json_in_a_text() -> None:
    calls = [
        call('{"a": [1, null, "é"]}', id="c1"),
        call({"a": (1,)}),
        call(""),
        call(None),
        call("{}", id=None),
    ]
    assert said(role="assistant", tool_calls=calls).parts == (
        ToolCall("f", {"a": [1, None, "é"]}, "c1"),
        ToolCall("f", {"a": [1]}),
        *[ToolCall("f", {})] * 3,
    )


def test_reasoning_comes_before_text_and_text_before_calls() -> None:
    message = said(role="ai", content="Let me see.", reasoning_content="Hm", tool_calls=[call("{}")])
    assert message.parts == (Reasoning("Hm"), Text("Let me see."), ToolCall("f", {}))
    assert message.text == "Let me see."
    assert said(role="assistant", reasoning="Hm").parts == (Reasoning("Hm"),)
    parts = [{"type": "reasoning", "reasoning": "a"}, {"type": "reasoning", "text": "b"}, "c"]
    assert said(role="assistant", content=parts).parts == (Reasoning("a"), Reasoning("b"), Text("c"))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("sunny", "sunny"),
        (None, ""),
        ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}),
        ([1, "a", {"b": 2}], [1, "a", {"b": 2}]),
        (["a", "b"], ["a", "b"]),
        ([], []),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        (["a", {"type": "text", "text": "b"}], "a\nb"),
        ([{"type": "bug", "text": "b"}], [{"type": "bug", "text": "b"}]),
    ],
)
def test_a_result_is_a_text_or_data(content: Any, expected: Any) -> None:
    assert said(role="tool", content=content, tool_call_id="c1", name="f").parts == (
        ToolResult(expected, "f", "c1"),
    )


def test_a_result_may_be_an_error_and_may_be_named_or_not() -> None:
    assert said(role="function", content="x", name="f").parts == (ToolResult("x", "f"),)
    assert said(role="tool", content="x", is_error=True).parts == (ToolResult("x", is_error=True),)


def test_media_have_a_place_and_no_model_takes_them_yet() -> None:
    data = base64.b64encode(b"\x89PNG").decode()
    parts = [
        {
            "type": "image_url",
            "image_url": {"url": f"data:image/png;charset=x;base64,{data}", "detail": "low"},
        },
        {"type": "image_url", "image_url": f"data:image/svg+xml;base64,{data}"},
        {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}},
        {"type": "video"},
    ]
    messages = read_messages([USER, {"role": "user", "content": parts}])
    assert messages[1].parts == (
        Media("image", b"\x89PNG", "image/png"),
        Media("image", b"\x89PNG", "image/svg+xml"),
        Media("audio", b"\x89PNG", "audio/wav"),
        Media("video"),
    )
    for name in ("gemma3", "gemma4"):
        with pytest.raises(UnsupportedModalityError, match=r"message 1: image: .* take the part out"):
            format_named(name).render(messages)


def test_names_of_speakers_are_kept() -> None:
    assert said(role="user", content="a", name="example_user") == Message(
        "user", (Text("a"),), "example_user"
    )


def test_what_was_read_can_be_read_again_and_is_nobody_elses() -> None:
    arguments: dict[str, Any] = {"a": [1]}
    message = Message("assistant", (Reasoning("x"), Text("y"), ToolCall("f", arguments, "c")), "n")
    results = Message("tool", (ToolResult({"b": [1]}, "f", "c", True), ToolResult("x")))
    found = read_messages([message, results])
    assert found == (message, results) == read_messages(found)
    arguments["a"].append(2)
    assert found != (message, results)


def test_halves_of_surrogate_pairs_are_no_text_anywhere() -> None:
    message = said(
        role="assistant", tool_calls=[call({"\ud800": ["\udfff"]}, id="\ud800")], reasoning="\ud800"
    )
    assert message.parts == (Reasoning("\ufffd"), ToolCall("f", {"\ufffd": ["\ufffd"]}, "\ufffd"))
    (tool,) = read_tools([Tool("f", "\ud83d\ude00", {"title": "\ud800"})])
    assert tool == Tool("f", "\U0001f600", {"title": "\ufffd"})


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def many() -> Any:
    """Small to hold, and more than a hundred thousand values to read."""
    value: Any = [1] * 10
    for _ in range(6):
        value = [value] * 10
    return value


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/y.png"}}]},
            "fetched",
        ),
        ({"role": "user", "content": [{"type": "image_url"}]}, "part 0: image_url: expected a URL data:"),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": "data:image/png;base64,%"}]},
            "base64",
        ),
        ({"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": 3}}]}, "base64"),
        ({"role": "user", "content": [{"type": "input_audio"}]}, "part 0: input_audio: expected"),
        ({"role": "user", "content": [{"type": "image", "url": "x"}]}, "part 0: type is 'image'"),
        ({"role": "user", "content": [{"type": "file"}]}, "part 0: type is 'file'"),
        ({"role": "user", "content": [Reasoning("x")]}, "part 0: Reasoning in a message of role user"),
        ({"role": "system", "content": [ToolCall("f", {})]}, "part 0: ToolCall in a message of role system"),
        (
            {"role": "user", "content": [ToolResult("x")]},
            "part 0: ToolResult: a tool's message holds results",
        ),
        ({"role": "assistant", "content": [InvalidToolCall("f", "", "")]}, "part 0: .*InvalidToolCall"),
        ({"role": "user", "content": [Text(3)]}, "part 0: text is int"),  # type: ignore[arg-type]
        ({"role": "user"}, "content is missing"),
        ({"role": "tool", "tool_call_id": "c"}, "content is missing"),
        ({"role": "user", "content": "x", "name": 3}, "name is int"),
        ({"role": "user", "tool_call_id": "c"}, "tool_call_id: expected role, content, name alone"),
        ({"role": "tool", "tool_calls": [1]}, "tool_calls: expected role, content, name, tool_call_id"),
        ({"role": "tool", "content": 3}, "content is int"),
        ({"role": "tool", "content": float("nan")}, "content: nan is no number"),
        ({"role": "tool", "content": {"a": {1}}}, r"content\.a: set is no JSON value"),
        ({"role": "tool", "content": {1: 2}}, "the key 1 is int"),
        ({"role": "tool", "content": [2**5000]}, r"content\[0\]: a whole number of more than 4096 bits"),
        ({"role": "tool", "content": nested(70)}, "nested deeper than 64"),
        ({"role": "tool", "content": many()}, "more than 100000 values"),
        ({"role": "tool", "content": "x", "name": "a b"}, "name is 'a b'"),
        ({"role": "tool", "content": "x", "tool_call_id": 3}, "call_id is int"),
        ({"role": "assistant", "tool_calls": {}, "reasoning": 3}, "reasoning_content is int"),
        ({"role": "assistant", "tool_calls": "f"}, "tool_calls is str"),
        ({"role": "assistant", "tool_calls": [{"name": "f"}]}, "tool_calls 0: expected"),
        ({"role": "assistant", "tool_calls": [call("{}"), call("{}", name="")]}, "tool_calls 1: name is ''"),
        ({"role": "assistant", "tool_calls": [call("{}", id=3)]}, "id is int"),
        (
            {"role": "assistant", "tool_calls": [call('{"a": 1')]},
            r"tool_calls 0 \(f\): arguments: .*none: Exp",
        ),
        ({"role": "assistant", "tool_calls": [call("[" * 99999)]}, r"tool_calls 0 \(f\): arguments: .*none"),
        ({"role": "assistant", "tool_calls": [call("[1]")]}, "arguments: expected an object, got list"),
        ({"role": "assistant", "tool_calls": [call('{"a": NaN}')]}, r"arguments\.a: nan is no number"),
        (Message("tool"), "a tool's message without a result"),
        (Message("tool", (Text("x"),)), "part 0: Text: a tool's message holds results"),
        (Message("bot"), "role is 'bot'"),  # type: ignore[arg-type]
    ],
)
def test_a_message_that_has_no_form_is_refused_with_its_place(message: Any, says: str) -> None:
    with pytest.raises(InputError, match=f"message 1.*{says}"):
        read_messages([USER, message])


def test_an_image_in_a_result_is_refused_as_what_it_is() -> None:
    content = [{"type": "text", "text": "see"}, {"type": "image"}]
    with pytest.raises(UnsupportedModalityError, match="message 0, part 1: image in a tool's result"):
        read_messages([{"role": "tool", "content": content}])


@pytest.mark.parametrize(
    "tool",
    [
        Tool("f", "D", SCHEMA),
        {"type": "function", "function": {"name": "f", "description": "D", "parameters": SCHEMA}},
        {
            "type": "function",
            "function": {"name": "f", "description": "D", "parameters": SCHEMA, "strict": True},
        },
        {"name": "f", "description": "D", "parameters": SCHEMA},
        {"type": "function", "name": "f", "description": "D", "parameters": SCHEMA, "strict": False},
        {"name": "f", "description": "D", "input_schema": SCHEMA},
        {
            "type": "custom",
            "name": "f",
            "description": "D",
            "input_schema": SCHEMA,
            "cache_control": {"a": 1},
        },
    ],
)
def test_a_tool_is_read_in_every_usual_form(tool: Any) -> None:
    assert read_tools([tool]) == (Tool("f", "D", SCHEMA),)


def test_a_tool_may_have_neither_description_nor_parameters() -> None:
    for tool in (Tool("f"), {"name": "f"}, {"name": "f", "description": None, "parameters": None}):
        assert read_tools([tool]) == (Tool("f", "", {}),)
    assert read_tools(()) == ()


@pytest.mark.parametrize(
    ("tools", "says"),
    [
        ("f", "expected a list of tools, got str"),
        ({"name": "f"}, "expected a list of tools, got dict"),
        (3, "expected a list of tools, got int"),
        ([3], "tool 0: expected a Tool or a mapping, got int"),
        ([{"function": "f"}], "tool 0: function is str"),
        ([{"name": "f"}, {}], "tool 1: name is 'None'"),
        ([{"name": "a b"}], "name is 'a b'"),
        ([{"name": "f{"}], "expected 1 to 128 letters"),
        ([{"name": "f" * 129}], "expected 1 to 128 letters"),
        ([{"name": "f"}, Tool("f")], "tool 1: a tool before it has the name f"),
        ([{"name": "f", "description": 3}], r"tool 0 \(f\): description is int"),
        ([{"name": "f", "parameters": []}], "parameters: expected an object, got list"),
        ([{"name": "f", "parameters": {"type": "string"}}], "parameters: type is 'string'"),
        ([{"name": "f", "parameters": {"a": float("inf")}}], r"parameters\.a: inf is no number"),
        ([{"name": "f", "parameters": {}, "input_schema": {}}], "both parameters and input_schema"),
        ([{"name": "f", "args": {"a": 1}}], "args: expected name, description and parameters"),
        ([{"function": {"name": "f"}, "x": 1}], "tool 0: x: expected type and function alone"),
        ([{"type": "web_search", "name": "f"}], "type is 'web_search'"),
    ],
)
def test_what_is_no_tool_is_refused_with_its_place(tools: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_tools(tools)
