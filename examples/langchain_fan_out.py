"""Many questions at once on an event loop: each is a task, the engine runs them together, and none blocks the loop.

    python examples/langchain_fan_out.py
    python examples/langchain_fan_out.py --model hf:google/gemma-4-E2B-it --at-once 8

Needs `pip install ".[langchain]"`. Cancelling a task gives its request up at the next token.
"""

import argparse
import asyncio
import time

from doppler_plugins.langchain import ChatDoppler

PEOPLE = {"Tom": "Oslo", "Anna": "Rome", "Ben": "Lima", "Eva": "Kyoto", "Max": "Turin", "Ida": "Cairo"}


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="demo-chat")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--at-once", type=int, default=4, help="requests that the engine works on at a time")
    arguments = parser.parse_args()

    async with ChatDoppler(
        model=arguments.model,
        device=arguments.device,
        slots=arguments.at_once,
        temperature=0,
        max_tokens=40,
    ) as model:
        await model.awarmup()

        async def ask(person: str, city: str) -> str:
            answer = await model.ainvoke(f"{person} lives in {city}.\nWhere does {person} live?")
            return f"{person}: {answer.text}"

        began = time.perf_counter()
        tasks = [asyncio.create_task(ask(person, city)) for person, city in PEOPLE.items()]
        for answered in asyncio.as_completed(tasks):
            print(await answered)
        print(f"{len(tasks)} answers in {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    asyncio.run(main())
