"""`generate`: a text goes in, and what the model makes of it comes out while it is made."""

import sys
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from doppler_core.errors import InputError
from doppler_core.settings import EngineSettings
from doppler_plugins.cli.answer import delta_json, limit_reached, shown, summary
from doppler_plugins.cli.canvas_page import check_page_path, replayable
from doppler_plugins.cli.canvas_terminal import canvases_shown
from doppler_plugins.cli.canvas_view import naming
from doppler_plugins.cli.generation import (
    conversation,
    generation_options,
    in_options_words,
    warn_of_no_choice,
)
from doppler_plugins.cli.opened import opened
from doppler_plugins.cli.options import engine_options
from doppler_plugins.cli.output import json_flag
from doppler_plugins.cli.stdin import stdin_text

if TYPE_CHECKING:
    from doppler_core.engine.engine import Engine
    from doppler_core.engine.request import Delta


@click.command(short_help="Go on with a text, or answer it.")
@click.argument("model")
@click.argument("prompt", required=False)
@click.option(
    "--chat/--raw", "as_chat", help="Answer as in a conversation, or go on with the text (default)."
)
@click.option("--system", help="With --chat: what the model is told beforehand.")
@click.option(
    "--truncate", is_flag=True, help="Drop the beginning of a prompt that is too long instead of failing."
)
@click.option("--ignore-eos", is_flag=True, help="Go on past the model's end tokens.")
@click.option("--logprobs", type=int, help="With --json: of each token, and of so many likeliest ones.")
@json_flag("Print one JSON object for each piece of the answer.")
@click.option(
    "--canvas", is_flag=True, help="Show the canvases of a model that makes them, step by step, as they form."
)
@click.option(
    "--canvas-html",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write a page that replays how they formed.",
)
@generation_options
@engine_options
def generate(
    settings: EngineSettings,
    answer: dict[str, Any],
    model: str,
    prompt: str | None,
    as_chat: bool,
    system: str | None,
    truncate: bool,
    ignore_eos: bool,
    logprobs: int | None,
    as_json: bool,
    canvas: bool,
    canvas_html: Path | None,
) -> None:
    """Go on with PROMPT, or answer it with --chat.

    Without PROMPT it is read from stdin, from a terminal only where PROMPT is `-`: UTF-8, one line break at its end left
    out.
    """
    from doppler_core.engine.request import GenerateRequest

    if logprobs is not None and not as_json:
        raise click.UsageError("--logprobs are printed with --json")
    if not as_chat and (system is not None or answer["chat_format"] is not None or answer["thinking"]):
        raise click.UsageError("--system, --chat-format and --think are for --chat")
    if canvas_html is not None:
        check_page_path(canvas_html)
    drafts = canvas or canvas_html is not None
    text = _read(prompt)
    request = GenerateRequest(
        tuple(conversation(system, text)) if as_chat else text,
        ignore_eos=ignore_eos,
        logprobs=logprobs,
        overflow="truncate_left" if truncate else "error",
        drafts=drafts,
        **answer,
    )
    with opened(model, settings, "generate") as engine:
        if drafts and not engine.capabilities.streams_drafts:
            raise InputError(
                f"{model} makes one token at a time and has no canvas to show: generate without --canvas and "
                "--canvas-html"
            )
        warn_of_no_choice(engine, answer)
        handle = engine.submit(request)
        try:
            with (
                in_options_words("the prompt", "shorten it, --truncate"),
                replayable(handle, canvas_html, engine, text)
                if canvas_html
                else nullcontext(handle) as deltas,
            ):
                if as_json:
                    _print_deltas(engine, deltas, canvas)
                else:
                    _print_text(engine, deltas, answer["thinking"], canvas, as_chat)
        finally:
            handle.cancel()


def _print_deltas(engine: "Engine", deltas: "Iterable[Delta]", canvas: bool) -> None:
    for delta in deltas:
        if delta.canvas is not None and not canvas:
            continue
        limit = limit_reached(delta, engine.capabilities.context_length)
        more = {"limit": limit, "model": engine.model_id, "device": engine.device}
        click.echo(delta_json(delta, engine.tokenizer, **(more if delta.finish_reason else {})))


def _print_text(
    engine: "Engine", deltas: "Iterable[Delta]", thoughts: bool, canvas: bool, as_chat: bool
) -> None:
    with (
        shown(thoughts) as show_text,
        canvases_shown(show_text, naming(engine.tokenizer)) if canvas else nullcontext(show_text) as show,
    ):
        for delta in deltas:
            show(delta)
    click.echo(summary(delta, engine.capabilities.context_length), err=True)
    if not as_chat and engine.capabilities.chat and _is_nothing(delta):
        click.echo("the model ends this text where it stands; to have it answered, say --chat", err=True)


def _is_nothing(last: "Delta") -> bool:
    """Whether the model ended before its first token."""
    return last.finish_reason == "stop" and last.usage is not None and not last.usage.completion_tokens


def _read(prompt: str | None) -> str:
    if prompt not in (None, "-"):
        return str(prompt)
    if prompt is None and sys.stdin.isatty():
        raise click.UsageError("give a prompt as an argument, or on stdin (`-` reads it here)")
    return stdin_text()
