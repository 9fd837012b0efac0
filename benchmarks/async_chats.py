"""How long an event loop stands still while chats stream on it.

    python benchmarks/async_chats.py [MODEL] [--chats 4] [--tokens 200] [--device auto] [--out FIGURES]

MODEL is whatever ChatDoppler opens, the bundled demo-chat if nothing is named. Chats stream side by side in one loop,
and beside them a heartbeat sleeps a millisecond at a time: each of its gaps is how late it comes to run. Prints their
median and maximum with the tokens that came meanwhile, and exits with 1 where a bar is missed.
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from figures import Bar, machine, verdict, write_figures

from doppler_plugins.langchain import ChatDoppler

BEAT = 0.001  # s
MEDIAN, MAXIMUM = 0.020, 0.500  # s: the bars


async def heartbeat(gaps: list[float]) -> None:
    """Note, until cancelled, by how much each sleep was longer than asked for, in seconds."""
    while True:
        before = time.perf_counter()
        await asyncio.sleep(BEAT)
        gaps.append(time.perf_counter() - before - BEAT)


async def chat(model: ChatDoppler, number: int, least: int) -> int:
    """Answers as they come, one after the other, until so many tokens have; how many that were."""
    tokens = turns = 0
    while tokens < least:
        turns += 1
        async for chunk in model.astream(f"Tell me a long story about {number * turns} owls."):
            if chunk.usage_metadata is not None:
                tokens += chunk.usage_metadata["output_tokens"]
    return tokens


async def measure(model: ChatDoppler, chats: int, tokens: int) -> tuple[list[float], int, float]:
    """The heartbeat's gaps while each chat makes so many tokens, the tokens of all, and the seconds they took."""
    await chat(model, 0, least=1)  # opens the model, and compiles what has to be
    gaps: list[float] = []
    beating = asyncio.create_task(heartbeat(gaps))
    started = time.perf_counter()
    counts = await asyncio.gather(*(chat(model, number, tokens) for number in range(1, chats + 1)))
    took = time.perf_counter() - started
    beating.cancel()
    return gaps, sum(counts), took


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and compare with the bars."""
    parser = argparse.ArgumentParser(
        description="How long an event loop stands still while chats stream on it."
    )
    parser.add_argument("model", nargs="?", default="demo-chat")
    parser.add_argument("--chats", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(arguments)
    model = ChatDoppler(model=asked.model, device=asked.device, max_tokens=asked.tokens, temperature=1.0)
    gaps, tokens, took = asyncio.run(measure(model, asked.chats, asked.tokens))
    print(f"{asked.chats} chats, {tokens} tokens in {took:.1f} s, {len(gaps)} heartbeats")
    if asked.out:
        write_figures(asked.out, {"machine": machine(), "model": asked.model, "tokens": tokens, "gaps": gaps})
    bars = [
        Bar("median gap, ms", statistics.median(gaps) * 1e3, MEDIAN * 1e3, is_least=False),
        Bar("longest gap, ms", max(gaps) * 1e3, MAXIMUM * 1e3, is_least=False),
    ]
    return verdict(asked.model, bars)


if __name__ == "__main__":
    sys.exit(main())
