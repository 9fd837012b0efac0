"""LangChain's agents and graphs with ChatDoppler: tools, both ways of a structured end, tokens as they come."""

from dataclasses import replace
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic import BaseModel

from doppler_core.engine.request import GenerateRequest
from doppler_core.text.chat.messages import ToolResult
from doppler_core.text.grammar.form import JsonSchema
from doppler_plugins.langchain import ChatDoppler
from tests.adapters.obedient import call, obedient
from tests.adapters.scripted_chat import ScriptedChat, last

ran: list[int] = []


@tool
def double(number: int) -> int:
    """Double a number."""
    ran.append(number)
    return 2 * number


class Report(BaseModel):
    """What was found."""

    number: int


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@pytest.fixture
def model(chat_script: ScriptedChat) -> ChatDoppler:
    chat_script.reply = obedient(number=21)
    return ChatDoppler(model="scripted")


def asked(agent: Any) -> list[Any]:
    return list(agent.invoke({"messages": [("user", "Double 21.")]})["messages"])


def test_an_agent_calls_its_tool_and_reads_the_result(model: ChatDoppler, chat_script: ScriptedChat) -> None:
    messages = asked(create_agent(model, [double], system_prompt="You count."))
    assert ran == [21]
    assert [type(message).__name__ for message in messages] == [
        *("HumanMessage", "AIMessage", "ToolMessage", "AIMessage")
    ]
    assert messages[-1].text == "42"
    second = chat_script.requests[1]
    assert second.prompt[0].text == "You count."  # type: ignore[union-attr]
    (result,) = last(second).parts
    assert isinstance(result, ToolResult)
    assert (result.name, result.content) == ("double", "42")


async def test_an_agent_on_an_event_loop(model: ChatDoppler) -> None:
    state = await create_agent(model, [double]).ainvoke({"messages": [("user", "Double 21.")]})
    assert state["messages"][-1].text == "42"


@pytest.mark.parametrize("strategy", [Report, ProviderStrategy(Report)])
def test_an_agent_ends_with_json_of_its_schema(
    model: ChatDoppler, chat_script: ScriptedChat, strategy: Any
) -> None:
    """The profile says that answers can be held to a schema: every request is "calls, or JSON of the schema"."""
    agent = create_agent(model, [double], response_format=strategy)
    state = agent.invoke({"messages": [("user", "Double 21.")]})
    assert state["structured_response"] == Report(number=21)
    assert ran == [21]
    for request in chat_script.requests:
        assert isinstance(request.grammar, JsonSchema)
        assert (len(request.tools), request.tool_choice) == (1, "auto")


def test_an_agent_ends_with_a_call_of_its_schema(model: ChatDoppler, chat_script: ScriptedChat) -> None:
    def reply(request: GenerateRequest) -> str:
        done = isinstance(last(request).parts[0], ToolResult)
        return call("Report", {"number": 42}) if done else call("double", {"number": 21})

    chat_script.reply = reply
    agent = create_agent(model, [double], response_format=ToolStrategy(Report))
    state = agent.invoke({"messages": [("user", "Double 21.")]})
    assert state["structured_response"] == Report(number=42)
    assert {request.tool_choice for request in chat_script.requests} == {"required"}


def test_a_cut_call_ends_an_agent_and_runs_nothing(model: ChatDoppler, chat_script: ScriptedChat) -> None:
    chat_script.reply = lambda request: "<|tool_call>call:double{number:21"
    messages = asked(create_agent(model, [double]))
    assert ran == []
    assert messages[-1].invalid_tool_calls


def test_parallel_calls_all_run(model: ChatDoppler, chat_script: ScriptedChat) -> None:
    def reply(request: GenerateRequest) -> str:
        results = sum(isinstance(p, ToolResult) for message in request.prompt for p in message.parts)  # type: ignore[union-attr]
        return (
            call("double", {"number": 1}) + call("double", {"number": 2})
            if not results
            else f"{results} results"
        )

    chat_script.reply = reply
    messages = asked(create_agent(model, [double]))
    assert sorted(ran) == [1, 2]
    assert messages[-1].text == "2 results"


def test_an_error_of_a_tool_reaches_the_model(model: ChatDoppler, chat_script: ScriptedChat) -> None:
    @tool
    def fail(number: int) -> int:
        """Fail."""
        raise ValueError("no such number")

    node = ToolNode([fail], handle_tool_errors=True)
    asked_for = model.bind_tools([fail]).invoke("Go.")
    graph = StateGraph(MessagesState).add_node("tools", node).add_edge(START, "tools").compile()
    state = graph.invoke({"messages": [asked_for]})
    model.invoke(["Go.", asked_for, *state["messages"][1:]])
    (result,) = last(chat_script.requests[-1]).parts
    assert isinstance(result, ToolResult)
    assert result.is_error
    assert "no such number" in str(result.content)


def graph_of(model: ChatDoppler) -> Any:
    bound = model.bind_tools([double])

    def respond(state: MessagesState) -> dict[str, Any]:
        return {"messages": [bound.invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", respond)
    graph.add_node("tools", ToolNode([double]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile()


def test_a_graph_loops_until_no_tool_is_called(model: ChatDoppler) -> None:
    state = graph_of(model).invoke({"messages": [("user", "Double 21.")]})
    assert [type(message) for message in state["messages"][1:]] == [AIMessage, ToolMessage, AIMessage]
    assert state["messages"][-1].text == "42"


def test_a_graph_streams_tokens_of_a_plain_invoke(model: ChatDoppler, chat_script: ScriptedChat) -> None:
    chat_script.reply = lambda request: "One two three four."
    parts = [
        part
        for part, _ in graph_of(model).stream({"messages": [("user", "Hi")]}, stream_mode="messages")
        if isinstance(part, AIMessageChunk)
    ]
    assert len(parts) > 3
    assert "".join(part.text for part in parts) == "One two three four."


def test_a_summary_is_made_by_the_models_own_count_of_its_context(
    model: ChatDoppler, chat_script: ScriptedChat
) -> None:
    chat_script.capabilities = replace(chat_script.capabilities, context_length=2000)
    chat_script.reply = lambda request: "Short."
    summary = SummarizationMiddleware(model=model, trigger=("fraction", 0.5), keep=("messages", 1))
    agent = create_agent(model, [], middleware=[summary])
    agent.invoke({"messages": [("user", "word " * 1200), ("assistant", "Yes."), ("user", "And?")]})
    assert len(chat_script.requests) == 2
