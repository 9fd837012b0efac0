"""What Gemma 4 is told of a call is what is read when it writes the same: in pieces, and through any tokenizer's ids."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from chat_reply_cases import CASES, Case
from chat_tokenizers import small_tokenizer
from hypothesis import example, given, settings
from hypothesis import strategies as st

from doppler_core.text.chat import (
    Control,
    Message,
    Piece,
    ReplyPart,
    Text,
    ToolCall,
    chat_ids,
    control_ids,
    format_named,
    read_messages,
    read_tools,
)
from doppler_core.text.detokenizer import Detokenizer
from doppler_core.text.tokenizer import Tokenizer

GEMMA4 = format_named("gemma4")
ASK = Message("user", (Text("Q"),))

SIGNS = st.text(st.sampled_from(list('ab {}[]:,"\\\n\u2581é\U0001fae8<|>0-')), max_size=12)
TEXTS = st.one_of(
    SIGNS, st.text(st.characters(exclude_categories=["Cs"]), max_size=8), st.sampled_from(GEMMA4.marks)
)
KEYS = st.one_of(TEXTS, st.sampled_from(["type", "null", "5", "a b", "B", "b", ""]))
NUMBERS = st.one_of(
    st.integers(), st.integers(-(2**4000), 2**4000), st.floats(allow_nan=False, allow_infinity=False)
)
LEAVES = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)
ARGUMENTS = st.dictionaries(KEYS, VALUES, max_size=4)


def reply_of(messages: Sequence[Message]) -> list[Piece]:
    """What the model writes in the last turn of a conversation, up to where it waits for results."""
    prompt = list(GEMMA4.render(messages))
    begin = len(prompt) - 1 - prompt[::-1].index(Control("<|turn>"))
    end = prompt.index(Control("<|tool_response>"), begin)
    return [str(prompt[begin + 1]).removeprefix("model\n"), *prompt[begin + 2 : end]]


def read(pieces: Iterable[Piece]) -> list[ReplyPart]:
    assert GEMMA4.parser is not None
    parser = GEMMA4.parser()
    parts: list[ReplyPart] = []
    for piece in pieces:
        parts += parser.control(piece.token) if isinstance(piece, Control) else parser.text(piece)
    return [*parts, *parser.finish()]


def conversation(calls: Sequence[ToolCall]) -> tuple[Message, ...]:
    results = [{"role": "tool", "content": "x"} for _ in calls]
    return read_messages((ASK, Message("assistant", tuple(calls)), *results))


def same(found: Iterable[ReplyPart], calls: Sequence[ToolCall]) -> bool:
    """Names, arguments and their kinds (1 is not 1.0 or true); objects have no order."""
    calls_found = [part for part in found if isinstance(part, ToolCall)]
    return [shape(call) for call in calls_found] == [shape(call) for call in calls]


def shape(call: ToolCall) -> tuple[str, str]:
    return call.name, json.dumps(call.arguments, sort_keys=True)


@settings(max_examples=100)
@given(st.lists(ARGUMENTS, min_size=1, max_size=3), st.sampled_from(["f", "ns.get-it:v1/é"]))
@example([{mark: mark for mark in GEMMA4.marks}], "f")
@example([{"a": '<|"|>', '<|"|>': '<|"|>}<tool_call|>'}], "f")
@example([{"A": 1, "a": 2, "": 3, " ": 4, "a\nb": 5, "a ": 6}], "f")
@example([{"a": -0.0, "b": 1e22, "c": 5e-324, "d": 2**4000, "e": True, "f": 1}], "f")
def test_any_call_comes_back_as_it_was(arguments: list[dict[str, Any]], name: str) -> None:
    calls = [ToolCall(name, one) for one in arguments]
    parts = read(reply_of(conversation(calls)))
    assert len(parts) == len(calls)
    assert same(parts, calls)


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if any(isinstance(call, tuple) for call in case.calls)],
    ids=lambda case: case.name,
)
def test_every_call_that_was_read_is_read_again_from_a_prompt_that_holds_it(case: Case) -> None:
    calls = [ToolCall(*call) for call in case.calls if not isinstance(call, str)]
    assert same(read(reply_of(conversation(calls))), calls)


@pytest.fixture(scope="module", params=[True, False], ids=["special", "not special"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """One whose control tokens are special, and one that knows no better."""
    return small_tokenizer(tmp_path_factory.mktemp("tokenizer"), GEMMA4.marks, request.param)


@settings(max_examples=50)
@given(ARGUMENTS)
@example({mark: mark for mark in GEMMA4.marks})
def test_any_call_comes_back_through_the_ids_of_a_tokenizer(
    tokenizer: Tokenizer, arguments: dict[str, Any]
) -> None:
    # To this tokenizer, as to Gemma's own, U+2581 is a space.
    calls = [ToolCall("f", json.loads(json.dumps(arguments).replace("\\u2581", "_")))]
    ids = chat_ids(conversation(calls), GEMMA4, tokenizer)
    marks = control_ids(GEMMA4, tokenizer)
    begin = len(ids) - ids[::-1].index(tokenizer.token_id("<|tool_call>") or 0) - 1
    end = ids.index(tokenizer.token_id("<|tool_response>") or 0)
    detokenizer, pieces = Detokenizer(tokenizer), list[Piece]()
    for number in ids[begin:end]:
        pieces.append(Control(marks[number]) if number in marks else detokenizer.push(number))
    assert same(read(pieces), calls)


@st.composite
def schemas_and_values(draw: st.DrawFn, depth: int = 2) -> tuple[dict[str, Any], Any]:
    """A schema, and a value that it allows."""
    kinds = ["string", "integer", "number", "boolean", "enum", "nullable", "array", "object"][
        : 8 if depth else 5
    ]
    kind = draw(st.sampled_from(kinds))
    if kind == "object":
        inner = draw(st.dictionaries(KEYS, schemas_and_values(depth - 1), max_size=3))
        required = [key for key in inner if draw(st.booleans())]
        properties = {key: schema for key, (schema, _) in inner.items()}
        left_out = [key for key in inner if key not in required and draw(st.booleans())]
        values = {key: value for key, (_, value) in inner.items() if key not in left_out}
        return {"type": "object", "properties": properties, "required": required}, values
    if kind == "array":
        schema, value = draw(schemas_and_values(depth - 1))
        return {"type": "array", "items": schema}, [value] * draw(st.integers(0, 2))
    if kind == "nullable":
        schema, value = draw(schemas_and_values(depth - 1))
        return {"anyOf": [schema, {"type": "null"}]}, draw(st.sampled_from([value, None]))
    if kind == "enum":
        choices = draw(st.lists(TEXTS, min_size=1, max_size=3))
        return {"type": "string", "enum": choices}, draw(st.sampled_from(choices))
    values_of = {"string": TEXTS, "integer": st.integers(), "number": NUMBERS, "boolean": st.booleans()}
    return {"type": kind}, draw(values_of[kind])


@settings(max_examples=100)
@given(st.dictionaries(KEYS, schemas_and_values(), max_size=3))
def test_a_tool_of_any_schema_is_told_and_a_call_of_it_comes_back(
    parameters: dict[str, tuple[dict[str, Any], Any]],
) -> None:
    properties = {name: schema for name, (schema, _) in parameters.items()}
    tools = read_tools([{"name": "f", "parameters": {"type": "object", "properties": properties}}])
    calls = [ToolCall("f", {name: value for name, (_, value) in parameters.items()})]
    messages = conversation(calls)
    assert same(read(reply_of(messages)), calls)
    pieces = GEMMA4.render(messages, tools)
    begin, end = pieces.index(Control("<|tool>")), pieces.index(Control("<tool|>"))
    assert {piece for piece in pieces[begin + 1 : end] if isinstance(piece, Control)} == {Control('<|"|>')}
    told = "".join(piece for piece in pieces[begin + 1 : end] if isinstance(piece, str))
    assert all(name in told for name in properties)
