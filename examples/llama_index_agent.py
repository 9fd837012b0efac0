"""An agent with three tools on a local model, with LlamaIndex's `FunctionAgent`; its answers stream.

    python examples/llama_index_agent.py
    python examples/llama_index_agent.py --model hf:google/gemma-4-E2B-it "Add 17 and 25, then set a timer for so many minutes."

Needs `pip install ".[llama-index]"`. Calls are held to the tools' names and schemas while the model writes
them, so that even the bundled model of 2 million parameters makes calls that run.
"""

import argparse
import asyncio

from llama_index.core.agent.workflow import AgentStream, FunctionAgent, ToolCallResult

from doppler_plugins.llama_index import DopplerLLM

QUESTIONS = ["What is the weather in Oslo?", "What is 17 plus 25?", "Set a timer for 12 minutes."]


def get_weather(city: str) -> str:
    """Get the weather in a city."""
    return f"It is sunny in {city}."


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def set_timer(minutes: int) -> str:
    """Set a timer."""
    return f"The timer rings in {minutes} minutes."


async def ask(agent: FunctionAgent, question: str) -> None:
    """Print a question, the calls that are made for it, and the answer while it is written."""
    print(f"Question: {question}")
    handler = agent.run(user_msg=question)
    async for event in handler.stream_events():
        if isinstance(event, AgentStream):
            print(event.delta, end="", flush=True)
        elif isinstance(event, ToolCallResult):
            said = ", ".join(f"{name}={value!r}" for name, value in event.tool_kwargs.items())
            print(f"  calls {event.tool_name}({said})")
    await handler
    print()


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("questions", nargs="*", default=QUESTIONS)
    parser.add_argument("--model", default="demo-chat")
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()

    async with DopplerLLM(
        model=arguments.model, device=arguments.device, temperature=0.0, max_tokens=500
    ) as llm:
        await llm.awarmup()  # opens the model now, and not while the event loop waits for what it can do
        agent = FunctionAgent(tools=[get_weather, add, set_timer], llm=llm)
        for question in arguments.questions:
            await ask(agent, question)


if __name__ == "__main__":
    asyncio.run(main())
