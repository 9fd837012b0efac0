"""How fast Gemma 3 270M goes on with a prompt, against other engines on the same machine, in one run.

    make bench MODEL=<GGUF file of gemma-3-270m> [PEERS=<python with transformers and llama-cpp-python>]

Contestants run in turn, A B A B ..., with the same number of threads; each pair of neighbours gives a ratio, and the
median of the ratios is what counts. Every run has a prompt of its own, so that nothing of one before it can be used
again. Ends with 1 where a bar is missed.
"""

import argparse
import sys
from collections.abc import Iterator
from statistics import median

from contest import LLAMA, Contestant, Program, add_options
from documents import prose
from figures import Bar, machine, verdict, write_figures
from generation import (
    ADDED,
    AT_ONCE,
    CONVERSATION,
    PROMPT,
    SCRIPT,
    TOKENS,
    Prompts,
    Row,
    alone,
    merged,
    opening,
    turns,
)

REFERENCE = "transformers"
DECODE_LEAST = {"numpy": 1.0, "wgpu": 0.6}  # times the reference
MERGED_LEAST = {"numpy": 2.0, "wgpu": 3.0}  # times one request
SECOND_TURN_MOST = 0.25  # of the first turn's time
WARM_MOST, COLD_MOST = 4.0, 20.0  # seconds


def lines(row: Row) -> Iterator[str]:
    """A contestant's part of the table."""
    if "opening" in row:
        warm, cold = (median(row["opening"][state]) for state in ("warm_seconds", "cold_seconds"))
        yield f"open to first token {warm:.1f} s, with an empty cache {cold:.1f} s"
    for what in ("decode", "prefill"):
        speeds = ", ".join(
            f"{who} {median(speed[what]):.1f}" for who, speed in row["alone"]["speeds"].items()
        )
        ratio = f"; ratio {median(row['alone']['ratios'][what]):.2f}" if "ratios" in row["alone"] else ""
        yield f"{what}, tokens/s: {speeds}{ratio}"
    if "same" in row["alone"]:
        yield f"of {TOKENS} tokens the same as {REFERENCE} made, to the first other one: {row['alone']['same']}"
    if "merged" in row:
        one, several = (median(row["merged"][kind]) for kind in ("one", "at_once"))
        yield f"{AT_ONCE} requests at once, tokens/s: {several:.1f}, one {one:.1f}"
    if "turns" in row:
        first, second = (median(row["turns"][turn]) for turn in ("first_seconds", "second_seconds"))
        yield f"first token after {CONVERSATION} tokens {first:.2f} s, after {ADDED} more {second:.2f} s"


def bars(device: str, row: Row) -> Iterator[Bar]:
    """What one of our executors has to reach."""
    yield Bar("open to first token, seconds", median(row["opening"]["warm_seconds"]), WARM_MOST, False)
    yield Bar("the same with an empty cache", median(row["opening"]["cold_seconds"]), COLD_MOST, False)
    if "ratios" in row["alone"]:
        decode = median(row["alone"]["ratios"]["decode"])
        yield Bar(f"decode, times {REFERENCE}", decode, DECODE_LEAST[device])
    yield Bar(f"{AT_ONCE} requests, times one", median(row["merged"]["ratios"]), MERGED_LEAST[device])
    yield Bar("second turn, times the first", median(row["turns"]["ratios"]), SECOND_TURN_MOST, False)


def main() -> int:
    """Measure, print a table, keep the raw figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="GGUF file of gemma-3-270m, Q4_K_M")
    add_options(parser, "transformers, accelerate, gguf and llama-cpp-python")
    options = parser.parse_args()
    model, pairs, python = options.model, options.pairs, options.peers

    def contestant(name: str, python: str = sys.executable) -> Contestant:
        return Contestant(Program(SCRIPT, python, options.threads), name, model)

    ours = [contestant(device) for device in options.devices]
    prompts = Prompts(ours[0].ask("ids", text=prose()))
    reference = contestant(REFERENCE, python) if python else None
    if reference:
        reference.ask("generate", prompt=prompts.take(PROMPT), tokens=2)
    rows: dict[str, Row] = {}
    for one in ours:
        one.ask("warmup")
        rows[one.name] = {
            "opening": opening(
                Program(SCRIPT, sys.executable, options.threads), one.name, model, prompts, pairs
            ),
            "alone": alone(one, reference, prompts, pairs),
            "merged": merged(one, prompts, pairs),
            "turns": turns(one, prompts, pairs),
        }
        one.close()
    if python:
        llama = contestant(LLAMA, python)
        llama.ask("generate", prompt=prompts.take(PROMPT), tokens=2)
        rows[llama.name] = {"alone": alone(llama, reference, prompts, pairs)}
    head = {"machine": machine(), "threads": options.threads, "prompt_tokens": PROMPT, "new_tokens": TOKENS}
    print(
        f"{head['machine']['processor']}, {options.threads} threads, prompts of {PROMPT} tokens, {TOKENS} new ones"
    )
    for name, row in rows.items():
        print("\n".join(f"  {name}: {line}" for line in lines(row)))
    if options.out:
        write_figures(options.out, head | rows)
    return max(verdict(device, bars(device, rows[device])) for device in options.devices)


if __name__ == "__main__":
    sys.exit(main())
