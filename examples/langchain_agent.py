"""An agent with three tools on a local model, with LangChain's `create_agent`.

    python examples/langchain_agent.py
    python examples/langchain_agent.py --model hf:google/gemma-4-E2B-it "Add 17 and 25, then set a timer for so many minutes."

Needs `pip install ".[langchain]" langchain`. Calls are held to the tools' names and schemas while the model
writes them, so that even the bundled model of 2 million parameters makes calls that run.
"""

import argparse

from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

from doppler_plugins.langchain import ChatDoppler

QUESTIONS = ["What is the weather in Oslo?", "What is 17 plus 25?", "Set a timer for 12 minutes."]


@tool
def get_weather(city: str) -> str:
    """Get the weather in a city."""
    return f"It is sunny in {city}."


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def set_timer(minutes: int) -> str:
    """Set a timer."""
    return f"The timer rings in {minutes} minutes."


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("questions", nargs="*", default=QUESTIONS)
    parser.add_argument("--model", default="demo-chat")
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()

    with ChatDoppler(model=arguments.model, device=arguments.device, temperature=0, max_tokens=500) as model:
        agent = create_agent(model, [get_weather, add, set_timer])
        for question in arguments.questions:
            print(f"Question: {question}")
            # A model that never comes to an end is stopped after so many turns.
            state = agent.invoke({"messages": [("user", question)]}, {"recursion_limit": 12})
            for message in state["messages"][1:]:
                for call in message.tool_calls if isinstance(message, AIMessage) else []:
                    print(
                        f"  calls {call['name']}({', '.join(f'{k}={v!r}' for k, v in call['args'].items())})"
                    )
            print(f"  {state['messages'][-1].text}")


if __name__ == "__main__":
    main()
