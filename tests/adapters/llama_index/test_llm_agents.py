"""Agents over several turns: what they make of replies in Gemma 4's wire format, and what they tell the model then."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from llama_index.core.agent.react import ReActChatFormatter, ReActOutputParser
from llama_index.core.agent.workflow import (
    AgentStream,
    AgentWorkflow,
    FunctionAgent,
    ReActAgent,
    ToolCall,
    ToolCallResult,
)
from llama_index.core.tools import FunctionTool

from doppler_core.engine.request import GenerateRequest
from doppler_core.text.chat import Reasoning, ToolResult
from doppler_plugins.llama_index import DopplerLLM
from tests.adapters.obedient import call
from tests.adapters.scripted_chat import CAPABILITIES, ScriptedChat

# Agents look at all members of their own pydantic class, deprecated ones included.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20"),
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211"),
]


def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


@pytest.fixture
def llm(chat_script: ScriptedChat) -> DopplerLLM:
    chat_script.capabilities = replace(CAPABILITIES, context_length=4000)
    return DopplerLLM(model="scripted")


def in_turn(*replies: str) -> Callable[[GenerateRequest], str]:
    left = list(replies)
    return lambda request: left.pop(0)


async def events_of(agent: Any, question: str) -> tuple[Any, list[Any]]:
    handler = agent.run(user_msg=question)
    seen = [event async for event in handler.stream_events()]
    return await handler, seen


def results_of(request: GenerateRequest) -> list[ToolResult]:
    return [part for message in request.prompt for part in message.parts if isinstance(part, ToolResult)]


@pytest.mark.parametrize("streaming", [True, False])
def test_two_calls_at_once_get_their_own_results(
    llm: DopplerLLM, chat_script: ScriptedChat, streaming: bool
) -> None:
    calls = call("multiply", {"a": 2, "b": 3}) + call("multiply", {"a": 4, "b": 5})
    thought = "<|channel>thought\nTwo products.<channel|>"
    chat_script.reply = in_turn(thought + calls, "6 and 20.")
    agent = FunctionAgent(tools=[multiply], llm=llm, streaming=streaming)
    output, seen = asyncio.run(events_of(agent, "2 by 3, and 4 by 5?"))
    assert str(output.response.content) == "6 and 20."
    results = [event for event in seen if isinstance(event, ToolCallResult)]
    assert {str(event.tool_output.raw_output) for event in results} == {"6", "20"}
    assert len({event.tool_id for event in results}) == 2
    told = results_of(chat_script.requests[1])
    assert {(result.name, result.content) for result in told} == {("multiply", "6"), ("multiply", "20")}
    if streaming:
        chunks = [event for event in seen if isinstance(event, AgentStream)]
        assert "".join(event.thinking_delta or "" for event in chunks) == "Two products."
        assert "".join(event.delta for event in chunks) == "6 and 20."


def test_a_call_that_was_cut_off_is_not_run(llm: DopplerLLM, chat_script: ScriptedChat) -> None:
    chat_script.reply = in_turn("<|tool_call>call:multiply{a:2,b:3")
    output, seen = asyncio.run(events_of(FunctionAgent(tools=[multiply], llm=llm), "2 by 3?"))
    assert not [event for event in seen if isinstance(event, ToolCall)]
    assert output.response.content == ""


def test_thoughts_of_the_turns_before_come_back_as_thoughts(
    llm: DopplerLLM, chat_script: ScriptedChat
) -> None:
    chat_script.reply = in_turn(
        "<|channel>thought\nA product.<channel|>" + call("multiply", {"a": 2, "b": 3}), "6."
    )
    asyncio.run(events_of(FunctionAgent(tools=[multiply], llm=llm), "2 by 3?"))
    parts = [part for message in chat_script.requests[1].prompt for part in message.parts]
    assert Reasoning("A product.") in parts, "the chat format says what becomes of it"


def test_an_agent_hands_over_to_another(llm: DopplerLLM, chat_script: ScriptedChat) -> None:
    chat_script.reply = in_turn(
        call("handoff", {"to_agent": "counter", "reason": "numbers"}),
        call("multiply", {"a": 6, "b": 7}),
        "42.",
    )
    front = FunctionAgent(name="front", description="Greets.", llm=llm, can_handoff_to=["counter"])
    counter = FunctionAgent(name="counter", description="Counts.", tools=[multiply], llm=llm)
    output, _ = asyncio.run(events_of(AgentWorkflow(agents=[front, counter], root_agent="front"), "6 by 7?"))
    assert str(output.response.content) == "42."
    assert output.current_agent_name == "counter"


def test_a_react_agent_reads_its_own_protocol(llm: DopplerLLM, chat_script: ScriptedChat) -> None:
    chat_script.reply = in_turn(
        'Thought: I need a tool.\nAction: multiply\nAction Input: {"a": 6, "b": 7}',
        "Thought: I can answer.\nAnswer: 42",
    )
    output, seen = asyncio.run(events_of(ReActAgent(tools=[multiply], llm=llm), "6 by 7?"))
    assert str(output.response.content) == "42"
    assert [event.tool_output.raw_output for event in seen if isinstance(event, ToolCallResult)] == [42]
    assert all(request.tools == () for request in chat_script.requests)


def test_a_model_without_tools_gets_an_agent_that_needs_none(chat_script: ScriptedChat) -> None:
    chat_script.capabilities = replace(CAPABILITIES, tools=False, context_length=4000)
    llm = DopplerLLM(model="scripted")
    workflow = AgentWorkflow.from_tools_or_functions([multiply], llm=llm)
    assert [type(agent) for agent in workflow.agents.values()] == [ReActAgent]
    chat_script.reply = in_turn(
        'Thought: I need a tool.\nAction: multiply\nAction Input: {"a": 6, "b": 7}',
    )
    # LlamaIndex 0.14.25 gives its agent None where these two are not said.
    said: dict[str, Any] = {
        "react_chat_formatter": ReActChatFormatter.from_defaults(),
        "output_parser": ReActOutputParser(),
    }
    answer = llm.predict_and_call([FunctionTool.from_defaults(multiply)], user_msg="6 by 7?", **said)
    assert str(answer) == "42"
