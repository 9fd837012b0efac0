"""`with_structured_output`: every method, every kind of schema; what does not fit is told and never repaired."""

import asyncio
import re
from collections.abc import Callable
from datetime import date
from enum import Enum
from functools import reduce
from operator import add
from typing import Annotated, Any

import pytest
from langchain_core.exceptions import OutputParserException
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import StructuredTool
from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic.v1 import BaseModel as BaseModelV1
from typing_extensions import TypedDict

from doppler_core.errors import InputError, OutputError
from doppler_core.text.grammar.form import JsonSchema
from doppler_plugins.langchain import ChatDoppler
from tests.adapters.obedient import call, obedient
from tests.adapters.scripted_chat import ScriptedChat

METHODS = ("json_schema", "function_calling", "json_mode")


class Address(BaseModel):
    """Where somebody lives."""

    city: str


class Person(BaseModel):
    """Somebody."""

    name: str = Field(min_length=1)
    age: int
    address: Address | None = None


class PersonV1(BaseModelV1):
    """Somebody."""

    name: str
    age: int


class PersonDict(TypedDict):
    """Somebody."""

    name: Annotated[str, ..., "the name"]
    age: Annotated[int, ..., "the age"]


FUNCTION = {
    "name": "person",
    "description": "Somebody.",
    "parameters": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
}
BARE = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@pytest.fixture
def model(chat_script: ScriptedChat) -> ChatDoppler:
    chat_script.reply = obedient(name="Ada", age=36)
    return ChatDoppler(model="scripted")


def every_way(runnable: Any) -> list[Any]:
    """What it gives on threads and event loops, and the last that it streams."""

    async def on_a_loop() -> list[Any]:
        return [await runnable.ainvoke("Who?"), [part async for part in runnable.astream("Who?")][-1]]

    return [runnable.invoke("Who?"), list(runnable.stream("Who?"))[-1], *asyncio.run(on_a_loop())]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (Person, Person(name="Ada", age=36)),
        (PersonV1, PersonV1(name="Ada", age=36)),
        (PersonDict, {"name": "Ada", "age": 36}),
        (Person.model_json_schema(), {"name": "Ada", "age": 36}),
        (FUNCTION, {"name": "Ada"}),
        (BARE, {"name": "Ada"}),
    ],
)
def test_every_method_gives_every_kind(model: ChatDoppler, method: Any, schema: Any, expected: Any) -> None:
    for found in every_way(model.with_structured_output(schema, method=method)):
        assert type(found) is type(expected)
        assert found == expected


def test_the_schema_reaches_the_grammar_or_the_tool(model: ChatDoppler, chat_script: ScriptedChat) -> None:
    model.with_structured_output(Person).invoke("Who?")
    model.with_structured_output(Person, method="function_calling").invoke("Who?")
    model.with_structured_output(None, method="json_mode").invoke("Who?")
    schema, tool, mode = chat_script.requests
    assert schema.grammar == JsonSchema(Person.model_json_schema())
    assert (tool.tools[0]["function"]["name"], tool.tool_choice, tool.parallel_tool_calls) == (
        *("Person", "Person"),
        False,
    )
    assert mode.grammar == JsonSchema({"type": "object"})


def test_raw_comes_with_what_was_read(model: ChatDoppler) -> None:
    for method in METHODS:
        found = model.with_structured_output(Person, method=method, include_raw=True).invoke("Who?")
        assert found["parsed"] == Person(name="Ada", age=36)
        assert found["parsing_error"] is None
        assert found["raw"].response_metadata["model_name"] == "scripted"


def test_raw_is_streamed_as_it_is_made_and_what_was_read_comes_once(model: ChatDoppler) -> None:
    for method in METHODS:
        for schema in (Person, BARE):
            parts = list(model.with_structured_output(schema, method=method, include_raw=True).stream("Who?"))
            assert [set(part) for part in parts[:-2]] == [{"raw"}] * (len(parts) - 2)
            assert {*parts[-2], *parts[-1]} == {"parsed", "parsing_error"}
    assert len(parts) > 4, "the JSON has several words"


def every_way_with_raw(runnable: Any) -> list[Any]:
    """What it gives in each way; of a stream all parts, added as users add them."""

    async def on_a_loop() -> list[Any]:
        parts = [part async for part in runnable.astream("Who?")]
        return [await runnable.ainvoke("Who?"), *await runnable.abatch(["Who?"]), reduce(add, parts)]

    streamed = reduce(add, runnable.stream("Who?"))
    return [runnable.invoke("Who?"), *runnable.batch(["Who?"]), streamed, *asyncio.run(on_a_loop())]


class Fussy(BaseModel):
    """Somebody whom nobody may name."""

    name: str

    @field_validator("name")
    @classmethod
    def _refuse(cls, name: str) -> str:
        raise KeyError(name)


@pytest.mark.parametrize(
    ("schema", "method", "answer", "words", "complaint"),
    [
        (Person, "json_schema", '{"name": "Ada", "age": 3', {}, "not JSON"),
        (Person, "json_schema", '{"name": "", "age": 3}', {}, "no Person"),
        (Person, "json_schema", '{"name": "Ada", "age": 36}', {"max_tokens": 2}, "cut at max_tokens"),
        (BARE, "json_schema", '{"name": "Ada", "age": 36}', {"max_tokens": 2}, "cut at max_tokens"),
        (Person, "json_schema", '{"name": "Ada", "age": 36}', {"stop": ["Ada"]}, "at the stop text 'Ada'"),
        (BARE, "json_schema", '{"name": "Ada", "age": 36}', {"stop": ["}", "3"]}, "at the stop text '3'"),
        ({"type": "number"}, "json_schema", "12.5", {"stop": "."}, "at the stop text"),
        ({"type": "integer"}, "json_schema", "12 34", {"max_tokens": 1}, "cut at max_tokens"),
        ({"type": "array", "items": {}}, "json_mode", "[1, [2], 3", {}, "not JSON"),
        (Fussy, "json_schema", '{"name": "Ada"}', {}, "'Ada'"),
        (Person, "function_calling", "I would rather not.", {}, "no call: 'I would rather not.'"),
        (Person, "function_calling", '<|tool_call>call:Person{name:<|"|>Ada', {}, "was cut off within it|reply ended"),
        (Person, "function_calling", call("Person", {"name": "Ada"}), {}, "no Person"),
    ],
)  # fmt: skip
def test_with_raw_what_does_not_fit_is_told_beside_it_in_every_way(
    chat_script: ScriptedChat, schema: Any, method: Any, answer: str, words: Any, complaint: str
) -> None:
    chat_script.reply = lambda request: answer
    model = ChatDoppler(model="scripted", **words)
    for found in every_way_with_raw(model.with_structured_output(schema, method=method, include_raw=True)):
        assert set(found) == {"raw", "parsed", "parsing_error"}
        assert found["parsed"] is None
        assert re.search(complaint, str(found["parsing_error"]))
        assert isinstance(found["parsing_error"], OutputError) or schema is Fussy
        assert found["raw"].response_metadata["model_name"] == "scripted"


def test_with_raw_the_parts_of_a_stream_add_up_to_what_an_invoke_gives(model: ChatDoppler) -> None:
    for method in METHODS:
        for schema in (Person, PersonDict, BARE):
            runnable = model.with_structured_output(schema, method=method, include_raw=True)
            whole, *others = every_way_with_raw(runnable)
            for found in others:
                assert (found["parsed"], found["parsing_error"]) == (whole["parsed"], None)
                assert found["raw"].text == whole["raw"].text


@pytest.mark.parametrize(
    ("method", "answer", "complaint"),
    [
        ("json_schema", '{"name": "Ada", "age": 3', "not JSON"),
        ("json_schema", '{"name": "", "age": 3}', "no Person"),
        ("json_schema", '```json\n{"name": "Ada", "age": 3}\n```', "not JSON"),
        ("function_calling", "I would rather not.", "no call: 'I would rather not.'"),
        ("function_calling", '<|tool_call>call:Person{name:<|"|>Ada', "can't be read"),
        ("function_calling", call("Person", {"name": "Ada"}), "no Person"),
    ],
)
def test_what_does_not_fit_is_told_and_not_repaired(
    chat_script: ScriptedChat, method: Any, answer: str, complaint: str
) -> None:
    chat_script.reply = lambda request: answer
    model = ChatDoppler(model="scripted")
    strict = model.with_structured_output(Person, method=method)
    for get in (strict.invoke, lambda text: list(strict.stream(text))):
        with pytest.raises(OutputError, match=complaint) as caught:
            get("Who?")
        assert isinstance(caught.value, OutputParserException)


def test_json_that_is_cut_is_told_also_at_the_end_of_a_stream(chat_script: ScriptedChat) -> None:
    chat_script.reply = lambda request: '{"name": "Ada", "age": 36'
    cut = ChatDoppler(model="scripted").with_structured_output(BARE)
    stream = cut.stream("Who?")
    assert next(stream) == {}
    with pytest.raises(OutputError, match="not JSON"):
        list(stream)

    async def drain() -> None:
        async for _ in cut.astream("Who?"):
            pass

    with pytest.raises(OutputError, match="not JSON"):
        asyncio.run(drain())


def test_an_answer_cut_at_max_tokens_says_that(chat_script: ScriptedChat) -> None:
    chat_script.reply = lambda request: '{"name": "Ada", "age": 36}'
    for schema in (Person, BARE):
        cut = ChatDoppler(model="scripted", max_tokens=2).with_structured_output(schema)
        for get in (cut.invoke, lambda text: list(cut.stream(text))):  # noqa: B023 - called at once
            with pytest.raises(OutputError, match="cut at max_tokens"):
                get("Who?")


def test_an_answer_that_is_whole_at_max_tokens_is_whole(chat_script: ScriptedChat) -> None:
    chat_script.reply = lambda request: '{"name": "Ada", "age": 36} and more'
    model = ChatDoppler(model="scripted", max_tokens=4)
    for schema, expected in ((Person, Person(name="Ada", age=36)), (BARE, {"name": "Ada", "age": 36})):
        for found in every_way(model.with_structured_output(schema)):
            assert found == expected
    chat_script.reply = lambda request: "12 34"
    with pytest.raises(OutputError, match="cut at max_tokens"):
        ChatDoppler(model="scripted", max_tokens=1).with_structured_output({"type": "integer"}).invoke("Who?")


def test_dicts_are_streamed_as_they_grow(model: ChatDoppler) -> None:
    for schema in (Person.model_json_schema(), PersonDict):
        parts = list(model.with_structured_output(schema).stream("Who?"))
        assert parts[0] == {}
        assert parts[-1] == {"name": "Ada", "age": 36}


def test_it_takes_a_prompt_before_and_a_call_beside(model: ChatDoppler, chat_script: ScriptedChat) -> None:
    chain = ChatPromptTemplate.from_template("Who is {who}?") | model.with_structured_output(
        Person, temperature=0.0, max_tokens=50
    )
    assert chain.batch([{"who": "Ada"}, {"who": "Bob"}]) == [Person(name="Ada", age=36)] * 2
    assert {request.max_tokens for request in chat_script.requests} == {50}


class Engineered(BaseModel):
    """Of a part that JSON has no form for."""

    part: Callable[[int], int]


class Unknown:
    """No class of data."""


class EngineeredDict(TypedDict):
    """The same, of a class that nobody knows."""

    part: Unknown


@pytest.mark.parametrize(
    ("schema", "method", "complaint"),
    [
        (None, "json_schema", "needs a schema"),
        (Person, "yaml", "expected one of json_schema"),
        (int, "json_schema", "no schema"),
        (list[Person], "json_schema", "no schema"),
        (Person | Address, "function_calling", "no schema"),
        ("Person", "json_schema", "no schema"),
        (Person(name="Ada", age=36), "json_schema", "no schema"),
        (BaseModel, "function_calling", "no schema"),
        (Enum("Colour", "RED BLUE"), "json_schema", "no schema"),
        ({"nothing": 1}, "json_schema", "no schema"),
        ({"type": 5}, "json_schema", "no schema"),
        ({"type": 5}, "function_calling", "no schema"),
        *((Engineered, method, "Engineered") for method in ("json_schema", "function_calling")),
        *(
            (EngineeredDict, method, "expected a pydantic class")
            for method in ("json_schema", "function_calling")
        ),
    ],
)
def test_what_is_no_schema_is_told_at_once(
    model: ChatDoppler, schema: Any, method: Any, complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint):
        model.with_structured_output(schema, method=method)


class Node(BaseModel):
    """Something that may hold another."""

    name: str
    child: "Node | None" = None


@pytest.mark.parametrize(
    "tool",
    [Node, StructuredTool.from_function(lambda **_: "", name="Node", description="A.", args_schema=Node)],
)
def test_a_tool_that_holds_itself_keeps_its_definitions(
    model: ChatDoppler, chat_script: ScriptedChat, tool: Any
) -> None:
    model.bind_tools([tool]).invoke("Who?")
    parameters = chat_script.requests[0].tools[0]["function"]["parameters"]  # type: ignore[index]
    assert set(parameters["$defs"]) == {"Node"}
    assert model.with_structured_output(Node, method="function_calling").invoke("Who?").name == "Ada"


OPEN = {"title": "person", "additionalProperties": {"type": "integer"}, "type": "object"}
JOINED = {"title": "person", "allOf": [BARE]}
WRAPPED = {"name": "person", "schema": BARE, "strict": True}


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (OPEN, OPEN),
        (JOINED, JOINED),
        (WRAPPED, BARE),
        ({"type": "json_schema", "json_schema": WRAPPED}, BARE),
        ({"type": "function", "function": FUNCTION}, FUNCTION["parameters"]),
        ({"name": "person", "input_schema": BARE}, BARE),
    ],
    ids=["open", "joined", "wrapped", "an answer's form", "a tool", "Anthropic's"],
)
def test_a_schema_is_held_as_it_is_written_whatever_is_around_it(
    model: ChatDoppler, chat_script: ScriptedChat, method: Any, schema: Any, expected: Any
) -> None:
    model.with_structured_output(schema, method=method).invoke("Who?")
    request = chat_script.requests[0]
    if method == "json_schema":
        assert isinstance(request.grammar, JsonSchema)
        assert request.grammar.schema == expected
    else:
        function = request.tools[0]["function"]  # type: ignore[index]
        assert (function["name"], function["parameters"]) == ("person", expected)


def test_a_class_that_is_strict_of_values_takes_them_from_json(chat_script: ScriptedChat) -> None:
    class Booking(BaseModel):
        model_config = ConfigDict(strict=True)
        day: date
        kind: Enum("Kind", {"TABLE": "table"})  # type: ignore[valid-type]

    chat_script.reply = obedient(day="2026-11-30", kind="table")
    for method in ("json_schema", "function_calling"):
        booking = ChatDoppler(model="scripted").with_structured_output(Booking, method=method).invoke("When?")
        assert booking.day == date(2026, 11, 30)


def test_a_schema_that_holds_itself_keeps_its_definitions(
    model: ChatDoppler, chat_script: ScriptedChat
) -> None:
    assert model.with_structured_output(Node).invoke("Who?").name == "Ada"
    grammar = chat_script.requests[0].grammar
    assert isinstance(grammar, JsonSchema)
    assert "$defs" in grammar.schema
