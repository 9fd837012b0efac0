"""Tools and the choice among them, as LangChain's users say them, on their way to a request."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, Optional

import pytest
from langchain_core import exceptions
from langchain_core.runnables import RunnableBinding
from langchain_core.tools import tool
from pydantic import BaseModel

from doppler_core.errors import InputError
from doppler_core.text.grammar.form import JsonSchema, Regex
from doppler_plugins.langchain import ChatDoppler
from tests.adapters.obedient import obedient
from tests.adapters.scripted_chat import ScriptedChat


class Ticket(BaseModel):
    """A ticket."""

    title: str
    parent: Optional["Ticket"] = None


@tool
def create_ticket(
    description: str,
    type: Literal["bug", "task"],
    tags: list[str] | None = None,
    parent: Ticket | None = None,
) -> str:
    """Create a ticket."""
    return description


def plain(city: str, days: int = 1) -> str:
    """Get the weather."""
    return city


ANTHROPIC = {"name": "pick", "input_schema": {"type": "object", "properties": {"colour": {"type": "string"}}}}
OPENAI = {"type": "function", "function": {"name": "now", "description": "", "parameters": {}}}
SCHEMA = {
    "title": "book",
    "description": "Book it.",
    "type": "object",
    "properties": {"n": {"type": "integer"}},
}


@pytest.fixture
def model(chat_script: ScriptedChat) -> ChatDoppler:
    chat_script.reply = obedient()
    return ChatDoppler(model="scripted")


def test_every_form_of_a_tool_reaches_the_request(model: ChatDoppler, chat_script: ScriptedChat) -> None:
    model.bind_tools([create_ticket, plain, Ticket, ANTHROPIC, OPENAI, SCHEMA]).invoke("Hi")
    tools = chat_script.requests[0].tools
    assert [one["function"]["name"] for one in tools] == [
        *("create_ticket", "plain", "Ticket", "pick", "now", "book")
    ]
    assert all(one["type"] == "function" for one in tools)
    assert tools[1]["function"]["parameters"]["required"] == ["city"]


def test_parameters_keep_their_names_whatever_these_are(
    model: ChatDoppler, chat_script: ScriptedChat
) -> None:
    model.bind_tools([create_ticket]).invoke("Hi")
    parameters = chat_script.requests[0].tools[0]["function"]["parameters"]
    assert sorted(parameters["properties"]) == ["description", "parent", "tags", "type"]
    assert sorted(parameters["required"]) == ["description", "type"]
    assert parameters["properties"]["type"]["enum"] == ["bug", "task"]


def test_a_tool_that_can_not_be_read_is_an_error(model: ChatDoppler) -> None:
    with pytest.raises(InputError, match="can't be read"):
        model.bind_tools([{"nothing": 1}])
    with pytest.raises(InputError, match="web_search"):
        model.bind_tools([{"type": "web_search"}])
    with pytest.raises(InputError, match="expected a list of tools"):
        model.bind_tools(print)  # type: ignore[arg-type]


class Engineered(BaseModel):
    """Of a part that JSON has no form for."""

    part: Callable[[int], int]


def untellable(part: Engineered) -> str:
    """Take a part."""
    return str(part)


@pytest.mark.parametrize(
    "tool",
    [
        *(None, 5, "plain", b"plain", [1], object(), partial(plain, "Oslo")),
        *(int, str, dict, BaseModel, Engineered, untellable),
        *({}, {"name": 5}, {"name": "a", "parameters": 5}, {"type": "function"}),
        *({"type": "function", "function": said} for said in (5, {}, {"name": "a", "parameters": []})),
    ],
    ids=repr,
)
def test_whatever_is_no_tool_is_an_error_of_ours_that_tells_so(model: ChatDoppler, tool: Any) -> None:
    """LangChain's and pydantic's own are of a dozen classes."""
    with pytest.raises(InputError, match="tool"):
        model.bind_tools([tool])
    with pytest.raises(InputError, match="tool"):
        model.invoke("Hi", tools=[tool])


def test_one_call_in_a_turn_or_several(model: ChatDoppler, chat_script: ScriptedChat) -> None:
    for said in (None, True, False):
        model.bind_tools([plain], parallel_tool_calls=said).invoke("Hi")
    assert [request.parallel_tool_calls for request in chat_script.requests] == [True, True, False]


def test_calls_are_held_to_their_schemas_unless_the_user_says_so(
    model: ChatDoppler, chat_script: ScriptedChat
) -> None:
    model.bind_tools([plain], strict=False).invoke("Hi")
    model.bind_tools([plain], constrain_tools=False).invoke("Hi")
    ChatDoppler(model="scripted", constrain_tools=False).bind_tools([plain]).invoke("Hi")
    loose = ChatDoppler(model="scripted", constrain_tools=False)
    loose.bind_tools([plain], strict=True).invoke("Hi")
    loose.bind_tools([plain], strict=False).invoke("Hi")
    loose.invoke("Hi", strict=True)
    held = [request.constrain_tools for request in chat_script.requests]
    assert held == [None, False, False, True, False, True]
    with pytest.raises(InputError, match="strict=True and constrain_tools=False"):
        model.bind_tools([plain], strict=True, constrain_tools=False).invoke("Hi")
    with pytest.raises(InputError, match="strict is str"):
        model.bind_tools([plain], strict="yes").invoke("Hi")  # type: ignore[arg-type]


def test_binding_gives_a_binding_that_binds_on(model: ChatDoppler, chat_script: ScriptedChat) -> None:
    bound = model.bind_tools([plain], temperature=0.5)
    assert isinstance(bound, RunnableBinding)
    bound.bind(max_tokens=7).invoke("Hi")
    (request,) = chat_script.requests
    assert (request.temperature, request.max_tokens, len(request.tools)) == (0.5, 7, 1)


ENVELOPE = {"type": "json_schema", "json_schema": {"name": "T", "schema": {"type": "object"}, "strict": True}}


@pytest.mark.parametrize(
    ("said", "grammar"),
    [
        ({}, None),
        ({"response_format": {"type": "text"}}, None),
        ({"response_format": {"type": "json_object"}}, JsonSchema({"type": "object"})),
        ({"response_format": ENVELOPE}, JsonSchema({"type": "object"})),
        ({"response_format": Ticket}, JsonSchema(Ticket.model_json_schema())),
        ({"response_format": {"type": "integer"}}, JsonSchema({"type": "integer"})),
        ({"grammar": Regex("[a-z]+")}, Regex("[a-z]+")),
    ],
)
def test_the_form_of_an_answer(
    model: ChatDoppler, chat_script: ScriptedChat, said: dict[str, Any], grammar: Any
) -> None:
    model.invoke("Hi", **said)
    assert chat_script.requests[0].grammar == grammar


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "T"}}}, "with a schema"),
        ({"response_format": {"nothing": 1}}, "expected a pydantic class, a TypedDict or a JSON schema"),
        ({"response_format": ENVELOPE, "grammar": Regex("a")}, "one of the two"),
        ({"grammar": "[a-z]+"}, "grammar is str"),
        ({"temperatur": 1}, "did you mean 'temperature'"),
        ({"n": 2}, "no word 'n'"),
        ({"model": 7}, "model=7: expected the name"),
        ({"timeout": 0}, "timeout=0: expected seconds"),
        ({"timeout": "soon"}, "timeout='soon'"),
    ],
)
def test_what_a_call_can_not_say_is_told(model: ChatDoppler, said: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint) as caught:
        model.invoke("Hi", **said)
    assert isinstance(caught.value, exceptions.ModelInvalidRequestError)


def test_words_of_hosted_models_and_of_tracing_change_nothing(
    model: ChatDoppler, chat_script: ScriptedChat
) -> None:
    model.invoke("Hi", api_key="secret", stream=False, strict=True, ls_provider="x", _private=1)
    assert len(chat_script.requests) == 1


def test_a_model_without_tools_says_so(chat_script: ScriptedChat) -> None:
    from dataclasses import replace

    chat_script.capabilities = replace(chat_script.capabilities, tools=False)
    with pytest.raises(InputError, match="tools"):
        ChatDoppler(model="scripted").bind_tools([plain]).invoke("Hi")
