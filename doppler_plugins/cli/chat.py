"""`chat`: a conversation, line by line. It works in a terminal, and with lines from a pipe.

In a terminal Ctrl-C stops the reply and Ctrl-D ends; in a pipe each line is a turn, and an error ends it all.
"""

import contextlib
import io
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from doppler_core.errors import InputError
from doppler_core.settings import EngineSettings
from doppler_plugins.cli.generation import (
    conversation,
    delta_json,
    generation_options,
    shown_text,
    summary,
)
from doppler_plugins.cli.options import engine_options
from doppler_plugins.cli.output import terminal_progress

if TYPE_CHECKING:
    from doppler_core.engine.engine import Engine

_HELP = "/reset forgets the conversation, /help says this; Ctrl-C stops a reply, Ctrl-D ends"


@click.command(short_help="Hold a conversation.")
@click.argument("model")
@click.option("--system", help="What the model is told beforehand.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each reply.")
@generation_options
@engine_options
def chat(
    settings: EngineSettings, answer: dict[str, Any], model: str, system: str | None, as_json: bool
) -> None:
    """Talk with MODEL. Each line of yours is a turn; the lines /reset and /help are commands."""
    from doppler_plugins.opening import open_engine

    at_terminal = sys.stdin.isatty()
    with open_engine(model, settings, terminal_progress()) as engine:
        # A model without a chat format is refused before anybody has written a line.
        engine.generate(conversation(system, "Hi"), max_tokens=0, chat_format=answer["chat_format"])
        if at_terminal:
            click.echo(f"{engine.model_id} on {engine.device}; {_HELP}", err=True)
        turns = conversation(system)
        for line in _lines(at_terminal):
            if line == "/help":
                click.echo(_HELP, err=True)
            elif line == "/reset":
                turns = conversation(system)
            else:
                try:
                    turns = _answered(
                        engine, [*turns, *conversation(None, line)], answer, as_json, at_terminal
                    )
                except InputError as error:
                    if not at_terminal:
                        raise
                    click.echo(f"{error}\nthis turn is forgotten; /reset begins anew", err=True)


def _answered(
    engine: "Engine", turns: list[dict[str, str]], answer: dict[str, Any], as_json: bool, at_terminal: bool
) -> list[dict[str, str]]:
    """The conversation with the reply to its last turn; as it was before that turn where nothing was replied."""
    from doppler_core.engine.request import Delta, GenerateRequest

    handle = engine.submit(GenerateRequest(tuple(turns), **answer))
    reply, last = "", Delta("", finish_reason="cancelled")
    with contextlib.nullcontext(_silent) if as_json else shown_text() as show:
        try:
            for delta in handle:
                reply += delta.text
                show(delta.text)
                last = delta if delta.finish_reason else last
        except KeyboardInterrupt:
            handle.cancel()
            if not at_terminal:
                raise
    if as_json:
        click.echo(delta_json(replace(last, text=reply, ids=(), logprobs=())))
    elif at_terminal:
        click.echo(summary(last), err=True)
    return [*turns, {"role": "assistant", "content": reply}] if reply else turns[:-1]


def _silent(_: str) -> None:
    """Where a reply is shown whole."""


def _lines(at_terminal: bool) -> Iterator[str]:
    """What the user says, line by line, until the end; a line of white space says nothing."""
    if at_terminal:
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401 - input() edits lines and remembers them once it is imported
    elif isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="replace")
    while True:
        try:
            line = _line() if at_terminal else sys.stdin.readline()
        except KeyboardInterrupt:
            if not at_terminal:
                raise
            click.echo("\n(Ctrl-D ends)", err=True)
            continue
        if not line:
            return
        if line.strip():
            yield line.strip()


def _line() -> str:
    """A line from the terminal with its line break; nothing at the end. The prompt is no part of a result."""
    try:
        if sys.stdout.isatty():
            return input("> ") + "\n"
        click.echo("> ", err=True, nl=False)
        return input() + "\n"
    except EOFError:
        click.echo(err=True)
        return ""
