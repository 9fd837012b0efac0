"""`generate`: a text goes in, and what the model makes of it comes out while it is made."""

import io
import sys
from typing import TYPE_CHECKING, Any

import click

from doppler_core.errors import TextTooLongError
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
    from doppler_core.engine.handle import Handle
    from doppler_core.engine.request import GenerateResult


@click.command(short_help="Go on with a text, or answer it.")
@click.argument("model")
@click.argument("prompt", required=False)
@click.option(
    "--chat/--raw", "as_chat", help="Answer as in a conversation, or go on with the text (default)."
)
@click.option("--system", help="With --chat: what the model is told beforehand.")
@click.option(
    "--truncate", is_flag=True, help="Drop the begin of a prompt that is too long instead of failing."
)
@click.option("--logprobs", type=int, help="With --json: of each token, and of so many likeliest ones.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each piece of the answer.")
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
    logprobs: int | None,
    as_json: bool,
) -> None:
    """Go on with PROMPT, or answer it with --chat. Without PROMPT, or where it is `-`, it is read from stdin."""
    from doppler_core.engine.request import GenerateRequest
    from doppler_plugins.opening import open_engine

    if logprobs is not None and not as_json:
        raise click.UsageError("--logprobs are printed with --json")
    if not as_chat and (system is not None or answer["chat_format"] is not None):
        raise click.UsageError("--system and --chat-format are for --chat")
    text = _read(prompt)
    request = GenerateRequest(
        tuple(conversation(system, text)) if as_chat else text,
        logprobs=logprobs,
        overflow="truncate_left" if truncate else "error",
        **answer,
    )
    with open_engine(model, settings, terminal_progress()) as engine:
        handle = engine.submit(request)
        try:
            if as_json:
                _print_deltas(handle, {"model": engine.model_id, "device": engine.device})
            else:
                _print_text(handle)
        except TextTooLongError as error:
            raise TextTooLongError(
                f"the prompt has {error.tokens} tokens and the context {error.limit}: shorten it, --truncate, or give a "
                "larger --context-length"
            ) from error
        finally:
            handle.cancel()


def _print_deltas(handle: "Handle[GenerateResult]", last: dict[str, str]) -> None:
    for delta in handle:
        click.echo(delta_json(delta, **(last if delta.finish_reason else {})))


def _print_text(handle: "Handle[GenerateResult]") -> None:
    with shown_text() as show:
        for delta in handle:
            show(delta.text)
    click.echo(summary(delta), err=True)


def _read(prompt: str | None) -> str:
    if prompt not in (None, "-"):
        return str(prompt)
    if prompt is None and sys.stdin.isatty():
        raise click.UsageError("give a prompt as an argument, or on stdin (`-` reads it here)")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="replace")
    return sys.stdin.read()
