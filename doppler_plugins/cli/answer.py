"""An answer while it is made and when it has ended: shown as text, as JSON, and told in a line for people."""

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

import click

from doppler_plugins.cli.output import json_text

if TYPE_CHECKING:
    from doppler_core.engine.request import Delta
    from doppler_core.text.tokenizer import Tokenizer

Limit = Literal["max_tokens", "context"]

# A model's text may hold any character; on a terminal those that move its cursor are left out.
_CONTROLS = {code: None for code in (*range(32), 127, *range(128, 160)) if chr(code) not in "\n\t"}
_LIMITS: dict[Limit | None, str] = {"max_tokens": "--max-tokens", "context": "the context is full"}


@contextmanager
def shown_text(line_for_nothing: bool = False) -> Iterator[Callable[[str], None]]:
    """A function that shows a piece of text at once, as far as stdout can. A line break follows the last one.

    line_for_nothing: also where there was no piece, unless an error was the reason.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    hidden = _CONTROLS if sys.stdout.isatty() else {}
    open_line = False

    def show(text: str) -> None:
        nonlocal open_line
        if text:
            # color: or click takes out of a file what it takes for colours.
            click.echo(text.translate(hidden), nl=False, color=True)
            open_line = True

    try:
        yield show
        open_line = open_line or line_for_nothing
    finally:
        if open_line:
            click.echo()


def delta_json(delta: "Delta", tokenizer: "Tokenizer | None", **more: Any) -> str:
    """A delta on one line: what it holds, with the text of every token that has a logarithm, and `more`."""
    found = {name: value for name, value in asdict(delta).items() if value not in (None, (), "")}
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


def limit_reached(last: "Delta", max_tokens: int | None) -> Limit | None:
    """What ended an answer whose finish_reason is "length"."""
    if last.finish_reason != "length" or last.usage is None:
        return None
    return "max_tokens" if last.usage.completion_tokens == max_tokens else "context"


def cut(last: "Delta", max_tokens: int | None) -> str:
    """For people: what cut an answer; nothing for one that ended by itself."""
    return _LIMITS.get(limit_reached(last, max_tokens), "")


def summary(last: "Delta", max_tokens: int | None) -> str:
    """What an answer took, for people."""
    usage, timings = last.usage, last.timings
    if usage is None or timings is None:
        return str(last.finish_reason)
    kept = f" ({usage.cached_tokens} kept)" if usage.cached_tokens else ""
    why = f" ({reason})" if (reason := cut(last, max_tokens)) else ""
    return (
        f"prompt {usage.prompt_tokens} tokens{kept} in {timings.prefill:.2f} s; answer {usage.completion_tokens} tokens, "
        f"{timings.tokens_per_second:.1f}/s; {last.finish_reason}{why}"
    )


def _token(number: int, logprob: float, tokenizer: "Tokenizer | None") -> dict[str, Any]:
    """A token's id and logarithm, and its text: a control token's name, U+FFFD for half a character."""
    found: dict[str, Any] = {"id": number, "logprob": logprob}
    if tokenizer is not None:
        piece = tokenizer.piece(number)
        found["text"] = piece.decode(errors="replace") or tokenizer.decode([number], skip_special=False)
    return found
