"""What `generate` and `chat` share: the options of an answer, and how one is shown while it is made."""

import functools
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import click

from doppler_plugins.cli.output import json_text

if TYPE_CHECKING:
    from doppler_core.engine.request import Delta

Command = TypeVar("Command", bound=Callable[..., Any])

# A model's text may hold any character; on a terminal those that move its cursor are left out.
_CONTROLS = {code: None for code in (*range(32), 127, *range(128, 160)) if chr(code) not in "\n\t"}

_OPTIONS = {
    "max_tokens": click.option(
        "--max-tokens", type=int, help="Most tokens to make; without it, to the context's end."
    ),
    "temperature": click.option("--temperature", type=float, help="0 = always the likeliest token."),
    "top_k": click.option("--top-k", type=int, help="Choose among so many likeliest tokens; 0 = all."),
    "top_p": click.option(
        "--top-p", type=float, help="Choose among the likeliest that have this probability together."
    ),
    "min_p": click.option(
        "--min-p", type=float, help="Choose among those at least this probable, relative to the likeliest."
    ),
    "seed": click.option("--seed", type=int, help="The same seed, the same text."),
    "stop": click.option("--stop", multiple=True, help="A text that ends the answer. May be repeated."),
    "chat_format": click.option(
        "--chat-format", help="gemma3 or gemma4, instead of the model's own chat format."
    ),
}


def generation_options(command: Command) -> Command:
    """Add the options of an answer, and pass them as `answer`, fields of GenerateRequest, in their place."""

    @functools.wraps(command)
    def collect(*positional: Any, **arguments: Any) -> Any:
        chosen = {name: arguments.pop(name) for name in _OPTIONS}
        return command(*positional, answer=chosen, **arguments)

    for option in reversed(list(_OPTIONS.values())):
        collect = option(collect)
    return collect  # type: ignore[return-value]


def conversation(system: str | None, *texts: str) -> list[dict[str, str]]:
    """Messages of the user, behind those of the system."""
    head = [] if system is None else [{"role": "system", "content": system}]
    return head + [{"role": "user", "content": text} for text in texts]


@contextmanager
def shown_text() -> Iterator[Callable[[str], None]]:
    """A function that shows a piece of text at once, as far as stdout can. A line break follows the last one, but not
    an error that came before the first."""
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
        open_line = True
    finally:
        if open_line:
            click.echo()


def delta_json(delta: "Delta", **more: Any) -> str:
    """A delta on one line: what it holds, and `more`."""
    found = {name: value for name, value in asdict(delta).items() if value not in (None, ())}
    return json_text({"text": delta.text} | found | more, getattr(sys.stdout, "encoding", None))


def summary(last: "Delta") -> str:
    """What an answer took, for people."""
    usage, timings = last.usage, last.timings
    if usage is None or timings is None:
        return str(last.finish_reason)
    kept = f" ({usage.cached_tokens} kept)" if usage.cached_tokens else ""
    return (
        f"prompt {usage.prompt_tokens} tokens{kept} in {timings.prefill:.2f} s; answer {usage.completion_tokens} tokens, "
        f"{timings.tokens_per_second:.1f}/s; {last.finish_reason}"
    )
