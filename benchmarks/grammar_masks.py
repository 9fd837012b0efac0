"""What a mask costs: the table of a tokenizer, a grammar's compilation, and each step's mask.

    python benchmarks/grammar_masks.py TOKENIZER_JSON --rows 262144 [--ends 1 106] [--texts 20]

Texts are drawn from each grammar, every allowed token as likely as another. A step takes the token before it, asks what is
forced and makes a mask; its time is the processor's, so that a machine's other work does not count. Prints milliseconds,
and exits with 1 where the mean of a grammar's steps is over 1 ms. Tool grammars need a tokenizer with Gemma 4's control
tokens.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from figures import Bar, verdict

from doppler_core.text.chat.messages import Tool
from doppler_core.text.grammar.form import Grammar, JsonSchema, Regex
from doppler_core.text.grammar.masks import constraint
from doppler_core.text.grammar.table import TokenTable
from doppler_core.text.grammar.tool_grammar import tool_grammar
from doppler_core.text.tokenizer import Tokenizer

BAR_MS = 1.0
MOST_TOKENS = 200

TEXT, COUNT = {"type": "string"}, {"type": "integer"}
PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": TEXT,
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "email": {"type": "string", "format": "email"},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 20}},
        "manager": {"anyOf": [{"$ref": "#/$defs/Person"}, {"type": "null"}]},
    },
    "required": ["name", "age", "tags"],
}
FIELDS = {f"field_{at}": {"anyOf": [TEXT, COUNT, {"$ref": "#/$defs/Person"}]} for at in range(200)}


def grammars(has_calls: bool) -> dict[str, Grammar]:
    """What is measured, by name. has_calls: whether the tokenizer has Gemma 4's control tokens."""
    named = {"$defs": {"Person": PERSON}}
    numbers = {"type": "object", "properties": {"a": COUNT, "b": COUNT}, "required": ["a", "b"]}
    tools = [Tool("look_up", "", PERSON | named), Tool("add", "", numbers)]
    found: dict[str, Grammar] = {
        "JSON of a small schema": JsonSchema(PERSON | named),
        "JSON of 200 optional fields": JsonSchema({"type": "object", "properties": FIELDS} | named),
        "any JSON": JsonSchema({}),
        "a regular expression of words": Regex(r"([A-Z][a-z]{1,12} ){3,40}[0-9]{1,6}"),
    }
    if has_calls:
        found["text, then calls of two tools"] = tool_grammar(tools)
        found["calls of two tools"] = tool_grammar(tools, "required")
    return found


def steps(table: TokenTable, grammar: Grammar, seed: int) -> list[float]:
    """Seconds of each step of one text."""
    rng = np.random.default_rng(seed)
    now = constraint(table, grammar)
    seconds: list[float] = []
    token: int | None = None
    while len(seconds) < MOST_TOKENS and not now.stopped:
        begin = time.thread_time()
        if token is not None:
            now.accept(token)
        now.forced()
        words = now.words()
        seconds.append(time.thread_time() - begin)
        token = int(rng.choice(np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))))
    return seconds


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--ends", type=int, nargs="+", default=[1, 106])
    parser.add_argument("--texts", type=int, default=20)
    options: Any = parser.parse_args(arguments)
    tokenizer = Tokenizer(options.tokenizer, options.rows)
    begin = time.perf_counter()
    table = TokenTable(tokenizer, options.ends)
    constraint(table, Regex("a"))
    print(f"table of {options.rows} tokens: {time.perf_counter() - begin:.2f} s")
    bars: list[Bar] = []
    for name, grammar in grammars("<|tool_call>" in tokenizer.control).items():
        begin = time.thread_time()
        constraint(table, grammar)
        compiled = 1e3 * (time.thread_time() - begin)
        drawn = sorted(1e3 * one for seed in range(options.texts) for one in steps(table, grammar, seed))
        print(
            f"{name}: compiled in {compiled:.1f} ms; of {len(drawn)} steps: median {statistics.median(drawn):.3f}, 99 % "
            f"under {drawn[int(0.99 * len(drawn))]:.3f}, slowest {drawn[-1]:.2f} ms"
        )
        bars.append(
            Bar(f"mean milliseconds of a step in {name}", statistics.mean(drawn), BAR_MS, is_least=False)
        )
    return verdict("masks", bars)


if __name__ == "__main__":
    sys.exit(main())
