"""What generate_vs_peers.py measures of a contestant: rounds in, raw figures out, in the order in which they were taken."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from contest import Contestant, Program, in_turn
from figures import ratios

SCRIPT = "generators.py"
PROMPT, TOKENS, AT_ONCE = 128, 64, 8
# Tokens of a conversation's first turn, of its answer, and of all that the second turn adds, the answer among them.
CONVERSATION, ANSWER, ADDED = 1000, 16, 64

Row = dict[str, Any]
Run = Callable[[int], Any]


class Prompts:
    """Prompts of prose, as ids. No two begin alike: their places in the text lie a few words apart, as far as it goes."""

    def __init__(self, ids: Sequence[int]) -> None:
        self._begin, self._text = ids[:1], ids[1:]
        self._taken = 0

    def take(self, tokens: int) -> list[int]:
        """The next one, of so many tokens with the begin token."""
        self._taken += 1
        start = self._taken * 211 % (len(self._text) - tokens)
        return [*self._begin, *self._text[start : start + tokens - 1]]


def opening(program: Program, device: str, model: str, prompts: Prompts, rounds: int) -> Row:
    """Seconds from nothing to the first token, in a process of its own each time: first with an empty cache, then with
    what that left there."""

    def seconds(number: int) -> float:
        variables = {"DOPPLER_PLUGINS_CACHE_DIR": f"{folder}/{number}"}
        one = Contestant(replace(program, variables=variables), device, model)
        found = one.ask("generate", prompt=prompts.take(PROMPT), tokens=1)
        one.close()
        return one.open_seconds + float(found["first_seconds"])

    with tempfile.TemporaryDirectory() as folder:
        cold, warm = in_turn(rounds, seconds, seconds)
    return {"cold_seconds": cold, "warm_seconds": warm}


def alone(one: Contestant, reference: Contestant | None, prompts: Prompts, rounds: int) -> Row:
    """One request at a time, the same for both: prefill and decode tokens per second, and one's ratios to the reference.

    same: how many tokens were the same before the first that was not, in each round.
    """
    asked = [prompts.take(PROMPT) for _ in range(rounds)]
    both = [one] if reference is None else [one, reference]

    def runs_of(contestant: Contestant) -> Run:
        return lambda number: contestant.ask("generate", prompt=asked[number], tokens=TOKENS)

    runs = in_turn(rounds, *map(runs_of, both))
    speeds = [
        {
            "prefill": [PROMPT / run["first_seconds"] for run in found],
            "decode": [(TOKENS - 1) / run["decode_seconds"] for run in found],
        }
        for found in runs
    ]
    row: Row = {"speeds": {who.name: speed for who, speed in zip(both, speeds, strict=True)}}
    if reference is not None:
        row["ratios"] = {name: ratios(*(speed[name] for speed in speeds)) for name in speeds[0]}
        row["same"] = [same_begin(mine["ids"], theirs["ids"]) for mine, theirs in zip(*runs, strict=True)]
    return row


def same_begin(one: Sequence[int], other: Sequence[int]) -> int:
    """How many ids are the same before the first that is not."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=True)))


def merged(one: Contestant, prompts: Prompts, rounds: int) -> Row:
    """Tokens per second of one request, of several at once (all together), and their ratio."""

    def rate(count: int) -> float:
        asked = [prompts.take(PROMPT) for _ in range(count)]
        return decode_rate(one.ask("together", prompts=asked, tokens=TOKENS)["came"])

    single, several = in_turn(rounds, lambda _: rate(1), lambda _: rate(AT_ONCE))
    return {"one": single, "at_once": several, "ratios": ratios(several, single)}


def decode_rate(came: Sequence[Sequence[tuple[float, int]]]) -> float:
    """Tokens per second from the moment when every request has its first one. `came`: of each request, when how many
    tokens came."""
    begin = max(times[0][0] for times in came)
    end = max(times[-1][0] for times in came)
    return sum(count for times in came for when, count in times if when > begin) / (end - begin)


def turns(one: Contestant, prompts: Prompts, rounds: int) -> Row:
    """Seconds to the first token of a conversation's first and second turn, and what the second did not run again."""
    found: dict[str, list[float]] = {"first_seconds": [], "second_seconds": [], "reused": []}
    for _ in range(rounds):
        whole = prompts.take(CONVERSATION + ADDED - ANSWER)
        first = one.ask("generate", prompt=whole[:CONVERSATION], tokens=ANSWER)
        second = [*whole[:CONVERSATION], *first["ids"], *whole[CONVERSATION:]]
        then = one.ask("generate", prompt=second, tokens=1)
        found["first_seconds"].append(first["first_seconds"])
        found["second_seconds"].append(then["first_seconds"])
        found["reused"].append(then["cached"])
    return {**found, "ratios": ratios(found["second_seconds"], found["first_seconds"])}
