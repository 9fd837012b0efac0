"""The tools that are offered and the choice among them: the same words, and the same errors, in both frameworks."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import pytest
from langchain_core import exceptions
from langchain_core.tools import StructuredTool
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.core.types import PydanticProgramMode
from pydantic import BaseModel, ConfigDict

from doppler_core.errors import InputError
from doppler_core.text.chat import read_tools
from doppler_plugins.langchain import ChatDoppler
from doppler_plugins.llama_index import DopplerLLM
from doppler_plugins.testing.llm_suite import gathered
from tests.adapters.obedient import obedient
from tests.adapters.scripted_chat import ScriptedChat

ASKED = [ChatMessage(content="Hi")]


def plain(city: str) -> str:
    """Get the weather."""
    return city


def auto(days: int) -> str:
    """Its name is a word of choices."""
    return str(days)


def named(name: str) -> list[Any]:
    """A function under this name, as a tool of LangChain's, of LlamaIndex's and of chat APIs."""
    function = {"name": name, "description": "Get it.", "parameters": {"type": "object", "properties": {}}}
    return [
        StructuredTool.from_function(plain, name=name),
        FunctionTool.from_defaults(plain, name=name),
        {"type": "function", "function": function},
    ]


@pytest.fixture(autouse=True)
def _obeying(chat_script: ScriptedChat) -> None:
    chat_script.reply = obedient()


# How tools and a choice can be said, in each framework.
Way = Callable[[list[Any], Any], Any]
LANGCHAIN: dict[str, Way] = {
    "bind_tools": lambda tools, choice: (
        ChatDoppler(model="scripted").bind_tools(tools, tool_choice=choice).invoke("Hi")
    ),
    "bind": lambda tools, choice: (
        ChatDoppler(model="scripted").bind(tools=tools, tool_choice=choice).invoke("Hi")
    ),
    "stream": lambda tools, choice: list(
        ChatDoppler(model="scripted").stream("Hi", tools=tools, tool_choice=choice)
    ),
    "ainvoke": lambda tools, choice: asyncio.run(
        ChatDoppler(model="scripted").ainvoke("Hi", tools=tools, tool_choice=choice)
    ),
}
LLAMA: dict[str, Way] = {
    "chat": lambda tools, choice: DopplerLLM(model="scripted").chat(ASKED, tools=tools, tool_choice=choice),
    "stream_chat": lambda tools, choice: list(
        DopplerLLM(model="scripted").stream_chat(ASKED, tools=tools, tool_choice=choice)
    ),
    "achat": lambda tools, choice: asyncio.run(
        DopplerLLM(model="scripted").achat(ASKED, tools=tools, tool_choice=choice)
    ),
    "chat_with_tools": lambda tools, choice: DopplerLLM(model="scripted").chat_with_tools(
        list(map(_llama_tool, tools)), "Hi", tool_choice=choice
    ),
    "astream_chat_with_tools": lambda tools, choice: asyncio.run(
        gathered(
            DopplerLLM(model="scripted").astream_chat_with_tools(
                list(map(_llama_tool, tools)), "Hi", tool_choice=choice
            )
        )
    ),
}


def _llama_tool(tool: Any) -> FunctionTool:
    if isinstance(tool, Mapping):
        return FunctionTool.from_defaults(plain, name=tool["function"]["name"])
    return tool if isinstance(tool, FunctionTool) else FunctionTool.from_defaults(plain, name=tool.name)


EVERY_WAY = [
    *[pytest.param(way, 0, id=f"langchain {name}") for name, way in LANGCHAIN.items()],
    *[pytest.param(way, 1, id=f"llama_index {name}") for name, way in LLAMA.items()],
]
each_way = pytest.mark.parametrize(("way", "framework"), EVERY_WAY)


def tools_of(framework: int, *names: str) -> list[Any]:
    """The first one in the framework's own form, the others as chat APIs have them."""
    return [named(name)[framework if not index else 2] for index, name in enumerate(names)]


@each_way
def test_every_way_to_say_a_choice(way: Way, framework: int, chat_script: ScriptedChat) -> None:
    choices = {
        "auto": (None, "auto", {"type": "auto"}),
        "none": ("none", False, {"type": "none"}),
        "required": ("any", "required", True, {"type": "any"}),
        "plain": (
            "plain",
            {"type": "function", "function": {"name": "plain"}},
            {"type": "function", "name": "plain"},
            {"type": "tool", "name": "plain"},
        ),
    }
    for chosen, said in choices.items():
        for choice in said:
            chat_script.requests.clear()
            way(tools_of(framework, "plain", "other"), choice)
            assert [request.tool_choice for request in chat_script.requests] == [chosen], choice


@each_way
@pytest.mark.parametrize(
    "choice",
    [
        *(
            "weather",
            "",
            "Plain",
            "None",
            7,
            0.5,
            b"plain",
            ["plain"],
            ("plain",),
            {"plain"},
            {},
            [],
            object(),
        ),
        *({"type": "function"}, {"type": "tool", "name": "weather"}, {"type": "allowed_tools"}),
        *({"function": "plain"}, {"function": {"name": ["plain"]}}, {"name": 7}, {"type": ["auto"]}),
    ],
    ids=repr,
)
def test_an_odd_choice_is_an_error_that_lists_what_is_possible(
    way: Way, framework: int, choice: Any, chat_script: ScriptedChat
) -> None:
    possible = "expected auto, none, any, required or the name of a tool: plain, other"
    with pytest.raises(InputError, match=possible) as caught:
        way(tools_of(framework, "plain", "other"), choice)
    assert isinstance(caught.value, exceptions.ModelInvalidRequestError) == (framework == 0)
    assert not chat_script.opened


@each_way
def test_a_tool_comes_before_the_word_that_is_its_name(
    way: Way, framework: int, chat_script: ScriptedChat
) -> None:
    way(tools_of(framework, "auto", "none"), "none")
    way(tools_of(framework, "auto", "none"), "auto")
    assert [request.tool_choice for request in chat_script.requests] == ["none", "auto"]


@each_way
def test_a_demand_for_a_call_needs_a_tool(way: Way, framework: int, chat_script: ScriptedChat) -> None:
    for choice in ("any", "required", True, {"type": "any"}):
        with pytest.raises(InputError, match="give at least one"):
            way([], choice)
    for choice in ("auto", "none", None, False):
        way([], choice)
    assert {request.tool_choice for request in chat_script.requests} == {"auto"}, "nothing is forbidden"


def test_a_call_that_is_required_and_forbidden_is_told_of() -> None:
    with pytest.raises(InputError, match="give one of the two"):
        DopplerLLM(model="scripted").chat_with_tools(
            [FunctionTool.from_defaults(plain)], "Hi", tool_choice="none", tool_required=True
        )


@pytest.mark.parametrize("parallel", ["no", 1, 0, []])
def test_one_call_or_several_is_yes_or_no(parallel: Any) -> None:
    with pytest.raises(InputError, match="parallel_tool_calls is"):
        ChatDoppler(model="scripted").bind_tools([plain], parallel_tool_calls=parallel).invoke("Hi")
    with pytest.raises(InputError, match="parallel_tool_calls is"):
        DopplerLLM(model="scripted").chat(ASKED, tools=tools_of(1, "plain"), parallel_tool_calls=parallel)


T = TypeVar("T")


class Box(BaseModel, Generic[T]):
    """A box."""

    inside: T


class Titled(BaseModel):
    """A box."""

    model_config = ConfigDict(title="IntBox")
    inside: int


@each_way
@pytest.mark.parametrize("name", ["Box[int]", "a b", "f{", " ", "n" * 129])
def test_a_tool_keeps_its_name_and_one_that_a_call_can_not_hold_is_told_of(
    way: Way, framework: int, name: str, chat_script: ScriptedChat
) -> None:
    with pytest.raises(InputError, match=r"name is .*: expected 1 to 128 letters.*rename it"):
        way([named(name)[2]], None)
    assert not chat_script.opened
    way(tools_of(framework, "mcp.files/read-all:v2_é"), None)
    assert [tool.name for tool in read_tools(chat_script.requests[0].tools)] == ["mcp.files/read-all:v2_é"]


def test_a_class_whose_name_no_call_can_hold_may_have_a_title(chat_script: ScriptedChat) -> None:
    model, prompt = ChatDoppler(model="scripted"), PromptTemplate("Hi")
    llm = DopplerLLM(model="scripted", pydantic_program_mode=PydanticProgramMode.FUNCTION)
    with pytest.raises(InputError, match="rename it"):
        model.bind_tools([Box[int]]).invoke("Hi")
    with pytest.raises(InputError, match="rename it"):
        llm.structured_predict(Box[int], prompt)
    assert model.bind_tools([Titled]).invoke("Hi").tool_calls[0]["name"] == "IntBox"
    assert llm.structured_predict(Titled, prompt) == Titled(inside=1)


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        (Box[int], "Box_int"),
        ({"title": "Where is it?", "type": "object", "properties": {"inside": {"type": "integer"}}}, "Where_is_it"),
        ({"name": "a b", "parameters": {"type": "object", "properties": {"inside": {"type": "integer"}}}}, "a_b"),
        ({"title": "[]", "type": "object", "properties": {"inside": {"type": "integer"}}}, "answer"),
        ({"title": "n" * 300, "type": "object", "properties": {"inside": {"type": "integer"}}}, "n" * 128),
    ],
    ids=["class", "title", "function", "nothing to say", "long"],
)  # fmt: skip
@pytest.mark.parametrize("method", ["function_calling", "json_schema"])
def test_a_name_that_is_ours_alone_is_one_that_a_call_can_hold(
    schema: Any, name: str, method: Any, chat_script: ScriptedChat
) -> None:
    chat_script.reply = obedient(inside=5)
    found = ChatDoppler(model="scripted").with_structured_output(schema, method=method).invoke("Hi")
    assert (found if isinstance(found, dict) else found.model_dump()) == {"inside": 5}
    offered = read_tools(chat_script.requests[0].tools)
    assert [tool.name for tool in offered] == ([name] if method == "function_calling" else [])


def test_a_generic_class_is_made_by_its_schema_in_either_framework(chat_script: ScriptedChat) -> None:
    chat_script.reply = obedient(inside=5)
    llm = DopplerLLM(model="scripted")
    assert llm.structured_predict(Box[int], PromptTemplate("Hi")) == Box[int](inside=5)
    assert ChatDoppler(model="scripted").with_structured_output(Box[int]).invoke("Hi") == Box[int](inside=5)
