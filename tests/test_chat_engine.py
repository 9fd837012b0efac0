"""Conversations with tools, grammars and thoughts, through the engine on both executors. What the model says of itself
does not matter here: the bundled one is small."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from doppler_core.engine.engine import Engine
from doppler_core.engine.request import GenerateRequest, GenerateResult
from doppler_core.errors import InputError
from doppler_core.settings import EngineSettings
from doppler_core.text.chat import Message, Text, Tool, ToolCall, ToolResult
from doppler_core.text.grammar import JsonSchema, Lark, Regex
from doppler_plugins.opening import open_engine

MODEL = Path(__file__).parent.parent / "models" / "demo-chat"
ASKED = ({"role": "user", "content": "Is it warm in Bremen, and how much is 17 and 4?"},)
WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 12},
        "unit": {"enum": ["celsius", "kelvin"]},
    },
    "required": ["city", "unit"],
    "additionalProperties": False,
}
ADDING = {
    "type": "object",
    "properties": {"numbers": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99}, "maxItems": 3}},
    "required": ["numbers"],
    "additionalProperties": False,
}  # fmt: skip
SCHEMAS = {"weather": WEATHER, "add": ADDING}
TOOLS = (
    Tool("weather", "The weather of a city.", WEATHER),
    {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": ADDING}},
)
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0, "maximum": 150}},
    "required": ["name", "age"],
    "additionalProperties": False,
}  # fmt: skip


@pytest.fixture(scope="module", params=["numpy", "wgpu"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    device = "wgpu:llvmpipe" if request.param == "wgpu" else "numpy"
    with open_engine(str(MODEL), EngineSettings(device=device, context_length=512, slots=3)) as opened:
        yield opened


def chat(engine: Engine, **asked: Any) -> GenerateResult:
    return engine.generate(ASKED, **{"max_tokens": 120, "temperature": 1.0, "seed": 5, **asked})


def assert_valid(call: ToolCall) -> None:
    jsonschema.validate(dict(call.arguments), SCHEMAS[call.name])


def test_a_chat_model_says_what_it_can_do(engine: Engine) -> None:
    found = engine.capabilities
    assert (found.chat, found.tools, found.structured, found.reasoning, found.logprobs) == (True,) * 5


@pytest.mark.parametrize("choice", ["required", "weather", "add"])
@pytest.mark.parametrize("parallel", [True, False], ids=["several", "one"])
def test_calls_that_are_asked_for_are_made_and_keep_to_their_schemas(
    engine: Engine, choice: str, parallel: bool
) -> None:
    for seed in range(3):
        found = chat(engine, tools=TOOLS, tool_choice=choice, parallel_tool_calls=parallel, seed=seed)
        assert found.text == ""
        assert found.finish_reason == ("tool_calls" if not found.invalid_tool_calls else "length")
        assert len(found.tool_calls) == 1 or (parallel and found.tool_calls)
        for call in found.tool_calls:
            assert choice in ("required", call.name)
            assert_valid(call)


def test_a_free_choice_is_text_or_calls_and_none_is_text_alone(engine: Engine) -> None:
    for seed in range(3):
        free = chat(engine, tools=TOOLS, seed=seed, max_tokens=30)
        assert free.text or free.tool_calls or free.invalid_tool_calls
        for call in free.tool_calls:
            assert_valid(call)
        none = chat(engine, tools=TOOLS, tool_choice="none", seed=seed, max_tokens=30)
        assert (none.tool_calls, none.invalid_tool_calls) == ((), ())


def test_an_answer_keeps_to_its_grammar(engine: Engine) -> None:
    for seed in range(3):
        person = chat(engine, grammar=JsonSchema(PERSON), seed=seed)
        jsonschema.validate(json.loads(person.text), PERSON)
        assert person.finish_reason == "stop"
    assert re.fullmatch("(yes|no), (sir|madam)", chat(engine, grammar=Regex("(yes|no), (sir|madam)")).text)
    assert chat(engine, grammar=Lark('start: "a" "b"+ "c"')).text.startswith("ab")
    assert re.fullmatch("[0-9]{4}", engine.generate("The year is", grammar=Regex("[0-9]{4}")).text)


def test_with_tools_and_a_grammar_a_turn_is_calls_or_such_an_answer(engine: Engine) -> None:
    for seed in range(4):
        found = chat(engine, tools=TOOLS, grammar=JsonSchema(PERSON), seed=seed, temperature=2.0)
        if found.tool_calls:
            assert found.text == ""
            for call in found.tool_calls:
                assert_valid(call)
        else:
            jsonschema.validate(json.loads(found.text), PERSON)


def test_a_thought_comes_before_what_a_grammar_limits(engine: Engine) -> None:
    for seed in range(3):
        found = chat(engine, grammar=Regex("yes|no"), thinking=True, seed=seed)
        assert found.text in ("yes", "no") or (found.finish_reason == "length" and found.text == "")


def test_logarithms_come_for_each_token_of_a_limited_answer(engine: Engine) -> None:
    found = chat(engine, grammar=JsonSchema(PERSON), logprobs=2)
    assert len(found.logprobs) == len(found.ids) == found.usage.completion_tokens
    assert [one.id for one in found.logprobs] == list(found.ids)


def test_limited_and_free_requests_run_together_and_stay_what_they_are_alone(engine: Engine) -> None:
    requests = [
        GenerateRequest(ASKED, max_tokens=20, temperature=0.0, **asked)
        for asked in (
            {},
            {"tools": TOOLS, "tool_choice": "required"},
            {"grammar": JsonSchema(PERSON)},
            {"logprobs": 3},
            {"tools": TOOLS},
            {"thinking": True},
        )
    ]
    alone = [engine.submit(request).result(60) for request in requests]
    for handle, own in zip([engine.submit(request) for request in requests], alone, strict=True):
        found = handle.result(60)
        assert (found.ids, found.text, found.finish_reason) == (own.ids, own.text, own.finish_reason)
        assert [(call.name, call.arguments) for call in found.tool_calls] == [
            (call.name, call.arguments) for call in own.tool_calls
        ]


def test_a_stream_holds_what_the_result_holds_and_no_half_call(engine: Engine) -> None:
    request = GenerateRequest(ASKED, max_tokens=120, tools=TOOLS, tool_choice="required", seed=1)
    handle = engine.submit(request)
    deltas = list(handle)
    result = handle.result(60)
    assert tuple(call for delta in deltas for call in delta.tool_calls) == (
        *result.tool_calls,
        *result.invalid_tool_calls,
    )
    assert all(delta.text == "" for delta in deltas)
    assert tuple(token for delta in deltas for token in delta.ids) == result.ids


TURNS = (
    *ASKED,
    Message("assistant", (ToolCall("add", {"numbers": [17, 4]}, "call_1"),)),
    Message("tool", (ToolResult("21", "add", "call_1"),)),
)


def test_tokens_of_a_conversation_are_counted_as_they_are_run(engine: Engine) -> None:
    for prompt, tools in ((ASKED, ()), (ASKED, TOOLS), (TURNS, TOOLS), ("A text.", ())):
        usage = engine.generate(prompt, tools=tools, max_tokens=0).usage
        assert engine.count_tokens(prompt, tools=tools) == usage.prompt_tokens
    assert engine.count_tokens(list(TURNS), tools=list(TOOLS)) > engine.count_tokens(TURNS)


def test_what_a_request_says_of_its_prompt_is_counted_too(engine: Engine) -> None:
    said = ({}, {"thinking": True}, {"tools": TOOLS}, {"thinking": True, "tools": TOOLS})
    for fields in (*said, {"chat_format": "gemma4"}):
        usage = engine.generate(ASKED, **fields, max_tokens=0).usage
        assert engine.count_tokens(ASKED, **fields) == usage.prompt_tokens
    assert len({engine.count_tokens(ASKED, **fields) for fields in said}) == len(said)
    for wrong in ({"thinking": 1}, {"chat_format": "gemma9"}, {"tools": ["add"]}):
        with pytest.raises(InputError, match=next(iter(wrong)).rstrip("s")):
            engine.count_tokens(ASKED, **wrong)


def test_an_answer_after_a_tools_result_keeps_to_its_grammar_behind_a_thought(engine: Engine) -> None:
    for thinking in (False, True):
        found = engine.generate(TURNS, tools=TOOLS, tool_choice="none", grammar=Regex("it is [0-9]{2}"), thinking=thinking, max_tokens=60, temperature=0)  # fmt: skip
        assert re.fullmatch("it is [0-9]{2}", found.text) or (found.finish_reason, found.text) == (
            "length",
            "",
        )
        assert thinking or found.text


def test_messages_are_the_same_as_objects_and_as_mappings(engine: Engine) -> None:
    said = Message("user", (Text(ASKED[0]["content"]),))
    assert engine.generate([said], max_tokens=8).ids == engine.generate(ASKED, max_tokens=8).ids


@pytest.mark.parametrize(
    ("prompt", "asked", "says"),
    [
        ("A text.", {"tools": TOOLS}, "tools: the prompt is no conversation"),
        ("A text.", {"thinking": True}, "thinking: the prompt is no conversation"),
        (ASKED, {"tools": TOOLS, "tool_choice": "divide"}, "divide"),
        (ASKED, {"tool_choice": "required"}, "tool_choice='required': there are no tools"),
        (ASKED, {"tools": TOOLS, "chat_format": "gemma3"}, "tools: the chat format gemma3 has no form for them"),
        (ASKED, {"tools": TOOLS[0]}, "tools is Tool: expected a tuple of tools"),
        (ASKED, {"tools": "weather"}, "tools is str"),
        (ASKED, {"tools": ({"type": "function"},)}, "tool"),
        (ASKED, {"grammar": "yes|no"}, "grammar is str: expected a JsonSchema, Regex or Lark"),
        (ASKED, {"grammar": Regex("(")}, "grammar"),
        (ASKED, {"grammar": JsonSchema({"type": "array", "uniqueItems": True})}, "uniqueItems"),
        (ASKED, {"grammar": Regex("a"), "mask": lambda: None}, "mask: grammar and tools make one of their own"),
        (ASKED, {"constrain_tools": 1}, "constrain_tools is int: expected True or False"),
        (ASKED, {"thinking": None}, "thinking is NoneType: expected True or False"),
        (ASKED, {"tool_choice": None}, "tool_choice is NoneType"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_request_is_said_by_its_field(
    engine: Engine, prompt: Any, asked: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError, match=re.escape(says)):
        engine.generate(prompt, max_tokens=1, **asked)
