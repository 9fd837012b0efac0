"""How tools and the choice among them get into a request, and what is kept of them."""

from collections.abc import Callable
from typing import Any, Literal, Optional

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.tools import FunctionTool, ToolMetadata
from pydantic import BaseModel

from doppler_core.errors import InputError
from doppler_core.text.chat import read_tools
from doppler_plugins.llama_index import DopplerLLM
from doppler_plugins.llama_index.tools import tool_mapping
from tests.adapters.scripted_chat import ScriptedChat


class Ticket(BaseModel):
    """A ticket, perhaps of another one."""

    title: str
    parent: Optional["Ticket"] = None


def create_ticket(
    description: str,
    type: Literal["bug", "task"],
    tags: list[str] | None = None,
    parent: Ticket | None = None,
) -> str:
    """Create a ticket."""
    return description


def ring_bell() -> str:
    return "dong"


CREATE, RING = FunctionTool.from_defaults(create_ticket), FunctionTool.from_defaults(ring_bell)


@pytest.fixture
def llm(chat_script: ScriptedChat) -> DopplerLLM:
    return DopplerLLM(model="scripted")


def test_no_parameter_is_lost_whatever_it_is_called() -> None:
    (tool,) = read_tools([tool_mapping(CREATE)])
    assert list(tool.parameters["properties"]) == ["description", "type", "tags", "parent"]
    assert tool.parameters["required"] == ["description", "type"]
    assert tool.parameters["properties"]["type"]["enum"] == ["bug", "task"]
    assert "Ticket" in tool.parameters["$defs"]
    assert "Create a ticket." in tool.description


class Node(BaseModel):
    """Something that may hold another."""

    name: str
    child: "Node | None" = None


def test_a_tool_that_holds_itself_keeps_its_definitions() -> None:
    tool = FunctionTool.from_defaults(lambda **_: "", name="plant", description="A tree.", fn_schema=Node)
    parameters = tool_mapping(tool)["function"]["parameters"]
    assert parameters == Node.model_json_schema()


def test_a_tool_may_take_nothing_and_tell_nothing() -> None:
    (tool,) = read_tools([tool_mapping(RING)])
    assert (tool.name, tool.parameters["properties"]) == ("ring_bell", {})
    silent = FunctionTool(ring_bell, ToolMetadata(name="ring", description="", fn_schema=None))
    assert read_tools([tool_mapping(silent)])[0].parameters["required"] == ["input"]


def test_tools_and_choice_reach_the_request(llm: DopplerLLM, chat_script: ScriptedChat) -> None:
    llm.chat_with_tools([CREATE, RING], "a", tool_choice="ring_bell", temperature=0.0)
    (*_, _last) = llm.stream_chat_with_tools([RING], "a", tool_required=True, allow_parallel_tool_calls=True)
    first, second = chat_script.requests
    assert [tool.name for tool in read_tools(first.tools)] == ["create_ticket", "ring_bell"]
    assert (first.tool_choice, first.parallel_tool_calls, first.temperature) == ("ring_bell", False, 0.0)
    assert (second.tool_choice, second.parallel_tool_calls) == ("required", True)


def test_tools_of_a_plain_chat_are_read_in_every_form(llm: DopplerLLM, chat_script: ScriptedChat) -> None:
    llm.chat([ChatMessage(content="a")], tools=[RING, tool_mapping(CREATE)], tool_choice="none")
    (request,) = chat_script.requests
    assert [tool.name for tool in read_tools(request.tools)] == ["ring_bell", "create_ticket"]
    assert (request.tool_choice, request.parallel_tool_calls) == ("none", True)


class Engineered(BaseModel):
    """Of a part that JSON has no form for."""

    part: Callable[[int], int]


@pytest.mark.parametrize("tool", [FunctionTool.from_defaults(ring_bell, fn_schema=Engineered), None, 5, "ring", ring_bell, Engineered, {}])  # fmt: skip
def test_whatever_is_no_tool_is_an_error_of_ours_that_tells_so(llm: DopplerLLM, tool: Any) -> None:
    for ask in (lambda: llm.chat([ChatMessage("a")], tools=[tool]), lambda: llm.chat_with_tools([tool], "a")):
        with pytest.raises(InputError, match=r"tool|no schema of Engineered: PydanticInvalid"):
            ask()


def test_no_tools_are_no_tools(llm: DopplerLLM, chat_script: ScriptedChat) -> None:
    llm.chat_with_tools([], "a", allow_parallel_tool_calls=True)
    assert (chat_script.requests[0].tools, chat_script.requests[0].tool_choice) == ((), "auto")
    with pytest.raises(InputError, match="give at least one"):
        llm.chat_with_tools([], "a", tool_required=True)


def test_the_question_follows_the_history(llm: DopplerLLM, chat_script: ScriptedChat) -> None:
    history = [ChatMessage(role="system", content="s")]
    llm.chat_with_tools([RING], user_msg="a", chat_history=history)
    llm.chat_with_tools([RING], user_msg=ChatMessage(role="developer", content="a"), chat_history=history)
    llm.chat_with_tools([RING], chat_history=history)
    roles = [[message.role for message in request.prompt] for request in chat_script.requests]
    assert roles == [["system", "user"], ["system", "developer"], ["system"]]
    assert len(history) == 1
