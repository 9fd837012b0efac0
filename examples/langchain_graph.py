"""A loop of a model and its tools as a LangGraph graph, its answer streamed token by token.

    python examples/langchain_graph.py
    python examples/langchain_graph.py --model hf:google/gemma-4-E2B-it "What is 12 times 12?"

Needs `pip install ".[langchain]" langgraph`. The node calls the model with a plain `ainvoke`; LangGraph
makes a stream of it.
"""

import argparse
import asyncio

from langchain_core.messages import AIMessageChunk, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from doppler_plugins.langchain import ChatDoppler

QUESTION = "What is 6 times 7?"


@tool
def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


def build_graph(model: ChatDoppler) -> CompiledStateGraph[MessagesState]:
    """The model answers, or calls; a call goes to the tool and back to the model."""
    bound = model.bind_tools([multiply], parallel_tool_calls=False)

    async def respond(state: MessagesState) -> dict[str, list[object]]:
        return {"messages": [await bound.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", respond)
    graph.add_node("tools", ToolNode([multiply]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile()


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("question", nargs="?", default=QUESTION)
    parser.add_argument("--model", default="demo-chat")
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()

    async with ChatDoppler(
        model=arguments.model, device=arguments.device, temperature=0, max_tokens=500
    ) as model:
        print(f"Question: {arguments.question}")
        start = {"messages": [("user", arguments.question)]}
        async for message, _ in build_graph(model).astream(
            start, {"recursion_limit": 12}, stream_mode="messages"
        ):
            if isinstance(message, ToolMessage):
                print(f"  {message.name} gave {message.content}")
            elif isinstance(message, AIMessageChunk):
                print(message.text, end="", flush=True)
        print()


if __name__ == "__main__":
    asyncio.run(main())
