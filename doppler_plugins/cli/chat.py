"""`chat`: a conversation, line by line. It works in a terminal, and with lines from a pipe.

In a terminal Ctrl-C stops the reply and Ctrl-D ends; in a pipe each line is a turn, and an error ends it all.
"""

import contextlib
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from doppler_core.errors import InputError
from doppler_core.settings import EngineSettings
from doppler_plugins.cli.answer import cut, delta_json, limit_reached, shown, summary
from doppler_plugins.cli.generation import (
    conversation,
    generation_options,
    in_options_words,
    warn_of_no_choice,
)
from doppler_plugins.cli.opened import opened
from doppler_plugins.cli.options import engine_options
from doppler_plugins.cli.output import json_flag
from doppler_plugins.cli.shortening import Turns, first_turn, in_format, shortened
from doppler_plugins.cli.stdin import stdin_lines

if TYPE_CHECKING:
    from doppler_core.engine.engine import Engine
    from doppler_core.engine.request import Delta

_HELP = "/reset forgets the conversation, /help says this, /bye ends; Ctrl-C stops a reply, Ctrl-D ends"
_COMMAND = re.compile(r"/\w+")  # and nothing behind it: "/etc/hosts is a file" is a turn
_ENDS = ("/bye", "/exit")


@click.command(short_help="Hold a conversation.")
@click.argument("model")
@click.option("--system", help="What the model is told beforehand.")
@click.option(
    "--truncate", is_flag=True, help="Drop the oldest turns where the context is full, never --system."
)
@json_flag("Print one JSON object for each reply.")
@generation_options
@engine_options
def chat(
    settings: EngineSettings,
    answer: dict[str, Any],
    model: str,
    system: str | None,
    truncate: bool,
    as_json: bool,
) -> None:
    """Talk with MODEL. Each line of yours is a turn; /reset forgets the turns, /help lists what there is, /bye ends."""
    at_terminal = sys.stdin.isatty()
    with opened(model, settings, "generate") as engine:
        warn_of_no_choice(engine, answer)
        # A model without a chat format is refused before anybody has written a line.
        with in_options_words("--system", "shorten it"):
            engine.generate(conversation(system, "Hi"), max_tokens=0, **in_format(answer))
        if at_terminal:
            click.echo(f"{engine.model_id} on {engine.device}; {_HELP}", err=True)
        talk = _Talk(engine, answer, truncate, as_json, at_terminal)
        turns = conversation(system)
        for number, line in _lines(at_terminal):
            if line in _ENDS:
                return
            if line == "/reset":
                turns = conversation(system)
                click.echo("the conversation is forgotten", err=True)
            elif _COMMAND.fullmatch(line):
                click.echo(
                    _HELP if line == "/help" else f"no such command: {line}; /help lists them", err=True
                )
            else:
                turns = talk.go_on(turns, number, line)


@dataclass
class _Talk:
    """How turns are answered, and whether it was said that the oldest are dropped."""

    engine: "Engine"
    answer: dict[str, Any]
    truncate: bool
    as_json: bool
    at_terminal: bool
    dropping: bool = False

    def go_on(self, turns: Turns, number: int, line: str) -> Turns:
        """The conversation with `line` and the reply to it; as it was where there is none."""
        try:
            return self._answered(self._shortened([*turns, *conversation(None, line)]), number)
        except InputError as error:
            if not self.at_terminal:
                click.echo(f"line {number} and what follows it have no reply", err=True)
                raise
            click.echo(f"{error}\nthis turn is forgotten; /reset begins anew", err=True)
        except KeyboardInterrupt:
            if not self.at_terminal:
                raise
            click.echo("cancelled; this turn is forgotten", err=True)
        return turns

    def _shortened(self, turns: Turns) -> Turns:
        if not self.truncate:
            return turns
        kept = shortened(self.engine, turns, self.answer)
        if len(kept) < len(turns) and not self.dropping:
            self.dropping = True
            click.echo("the context is full: the oldest turns are dropped from here on", err=True)
        return kept

    def _answered(self, turns: Turns, number: int) -> Turns:
        """The conversation with the reply to its last turn; as it was before that turn where nothing was replied."""
        from doppler_core.engine.request import Delta, GenerateRequest

        context = self.engine.capabilities.context_length
        handle = self.engine.submit(GenerateRequest(tuple(turns), **self.answer))
        reply, thought, last = "", "", Delta("", finish_reason="cancelled")
        alone = len(turns) == first_turn(turns) + 1
        with (
            in_options_words(*(_TURN if alone else _CONVERSATION)),
            self._shown() as show,
        ):
            try:
                for delta in handle:
                    reply, thought = reply + delta.text, thought + delta.reasoning
                    show(delta)
                    last = delta if delta.finish_reason else last
            except KeyboardInterrupt:
                handle.cancel()
                if not self.at_terminal:
                    raise
        if self.as_json:
            more = {
                "limit": limit_reached(last, context),
                "model": self.engine.model_id,
                "device": self.engine.device,
            }
            click.echo(
                delta_json(replace(last, text=reply, reasoning=thought, ids=(), logprobs=()), None, **more)
            )
        elif self.at_terminal:
            click.echo(summary(last, context), err=True)
        elif reason := cut(last, context):
            click.echo(f"line {number}: the reply is cut ({reason})", err=True)
        return [*turns, {"role": "assistant", "content": reply}] if reply else turns[:-1]

    def _shown(self) -> AbstractContextManager[Callable[["Delta"], None]]:
        if self.as_json:
            return contextlib.nullcontext(lambda delta: None)  # a reply is shown whole
        return shown(self.answer["thinking"], line_for_nothing=True)


_TURN = ("this turn", "shorten it")
_CONVERSATION = ("the conversation", "/reset forgets it, --truncate drops its oldest turns")


def _lines(at_terminal: bool) -> Iterator[tuple[int, str]]:
    """What the user says, line by line, until the end; a line of white space says nothing."""
    number = 0
    for number, line in enumerate(_typed(), 1) if at_terminal else stdin_lines():
        if text := line.strip():
            yield number, text
    if number == 0 and not at_terminal:
        raise InputError("stdin is empty: expected a turn in each line")


def _typed() -> Iterator[str]:
    """Lines from the terminal, until Ctrl-D."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - input() edits lines and remembers them once it is imported
    while True:
        try:
            # The prompt is no part of a result.
            if not sys.stdout.isatty():
                click.echo("> ", err=True, nl=False)
            line = input("> " if sys.stdout.isatty() else "")
        except EOFError:
            click.echo(err=True)
            return
        except KeyboardInterrupt:
            click.echo("\n(Ctrl-D ends)", err=True)
        else:
            yield line
