"""An answer while it is made and when it has ended: shown as text, as JSON, and told in a line for people."""

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal, TextIO

import click

from doppler_plugins.cli.output import json_text

if TYPE_CHECKING:
    from doppler_core.engine.request import Delta
    from doppler_core.text.tokenizer import Tokenizer

Limit = Literal["max_tokens", "context"]

# A model's text may hold any character; on a terminal those that move its cursor are left out.
_CONTROLS = {code: None for code in (*range(32), 127, *range(128, 160)) if chr(code) not in "\n\t"}
_OF_CANVASES = ("denoising_steps", "tokens_per_forward")  # of usage, where there were any
_LIMITS: dict[Limit | None, str] = {"max_tokens": "--max-tokens", "context": "the context is full"}


@contextmanager
def shown(thoughts: bool = False, line_for_nothing: bool = False) -> Iterator[Callable[["Delta"], None]]:
    """A function that shows a delta at once: its text, as far as stdout can, and a line break after the last one.

    thoughts: those too, dim and on stderr, as they are no result. line_for_nothing: a line break also where there was
    no text, unless an error was the reason.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    in_line = in_thought = False

    def show(delta: "Delta") -> None:
        nonlocal in_line, in_thought
        if thoughts and delta.reasoning:
            click.secho(_plain(delta.reasoning, sys.stderr), dim=True, nl=False, err=True)
            in_thought = True
        if delta.text:
            if in_thought:
                click.echo(err=True)
            # color: or click takes out of a file what it takes for colours.
            click.echo(_plain(delta.text, sys.stdout), nl=False, color=True)
            in_line, in_thought = True, False

    try:
        yield show
        in_line = in_line or line_for_nothing
    finally:
        if in_thought:
            click.echo(err=True)
        if in_line:
            click.echo()


def _plain(text: str, stream: TextIO) -> str:
    return text.translate(_CONTROLS) if stream.isatty() else text


def delta_json(delta: "Delta", tokenizer: "Tokenizer | None", **more: Any) -> str:
    """A delta on one line: what it holds, with the text of every token that has a logarithm, and `more`."""
    found = {name: value for name, value in asdict(delta).items() if value not in (None, (), "")}
    if delta.usage is not None and not delta.usage.denoising_steps:
        found["usage"] = {name: count for name, count in found["usage"].items() if name not in _OF_CANVASES}
    if delta.logprobs:
        found["logprobs"] = [
            {
                **_token(one.id, one.logprob, tokenizer),
                "top": [_token(*likely, tokenizer) for likely in one.top],
            }
            for one in delta.logprobs
        ]
    known = {name: value for name, value in more.items() if value is not None}
    return json_text({"text": delta.text} | found | known, getattr(sys.stdout, "encoding", None))


def limit_reached(last: "Delta", context: int) -> Limit | None:
    """What ended an answer whose finish_reason is "length". context: the most tokens of prompt and answer."""
    if last.finish_reason != "length" or last.usage is None:
        return None
    full = last.usage.prompt_tokens + last.usage.completion_tokens >= context
    return "context" if full else "max_tokens"


def cut(last: "Delta", context: int) -> str:
    """For people: what cut an answer; nothing for one that ended by itself."""
    return _LIMITS.get(limit_reached(last, context), "")


def summary(last: "Delta", context: int) -> str:
    """What an answer took, for people."""
    usage, timings = last.usage, last.timings
    if usage is None or timings is None:
        return str(last.finish_reason)
    thoughts = f" ({usage.reasoning_tokens} of thoughts)" if usage.reasoning_tokens else ""
    kept = f" ({usage.cached_tokens} kept)" if usage.cached_tokens else ""
    steps = usage.denoising_steps
    taken = f" in {steps} steps ({usage.tokens_per_forward:.1f} a step)" if steps else ""
    why = f" ({reason})" if (reason := cut(last, context)) else ""
    return (
        f"prompt {usage.prompt_tokens} tokens{kept} in {timings.prefill:.2f} s; "
        f"answer {usage.completion_tokens} tokens{thoughts}{taken}, "
        f"{timings.tokens_per_second:.1f}/s; {last.finish_reason}{why}"
    )


def token_text(number: int, tokenizer: "Tokenizer | None") -> str:
    """A token's text: a control token's name, U+FFFD for half a character; without a tokenizer none."""
    if tokenizer is None:
        return ""
    return tokenizer.piece(number).decode(errors="replace") or tokenizer.decode([number], skip_special=False)


def _token(number: int, logprob: float, tokenizer: "Tokenizer | None") -> dict[str, Any]:
    """A token's id, logarithm and text."""
    found: dict[str, Any] = {"id": number, "logprob": logprob}
    return found if tokenizer is None else {**found, "text": token_text(number, tokenizer)}
