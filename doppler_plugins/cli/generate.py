"""`generate`: a text goes in, and what the model makes of it comes out while it is made."""

import sys
from typing import TYPE_CHECKING, Any

import click

from doppler_core.settings import EngineSettings
from doppler_plugins.cli.answer import delta_json, limit_reached, shown, summary
from doppler_plugins.cli.generation import (
    conversation,
    generation_options,
    in_options_words,
    warn_of_no_choice,
)
from doppler_plugins.cli.opened import opened
from doppler_plugins.cli.options import engine_options
from doppler_plugins.cli.stdin import stdin_text

if TYPE_CHECKING:
    from doppler_core.engine.engine import Engine
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
    "--truncate", is_flag=True, help="Drop the beginning of a prompt that is too long instead of failing."
)
@click.option("--ignore-eos", is_flag=True, help="Go on past the model's end tokens.")
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
    ignore_eos: bool,
    logprobs: int | None,
    as_json: bool,
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
    text = _read(prompt)
    request = GenerateRequest(
        tuple(conversation(system, text)) if as_chat else text,
        ignore_eos=ignore_eos,
        logprobs=logprobs,
        overflow="truncate_left" if truncate else "error",
        **answer,
    )
    with opened(model, settings, "generate") as engine:
        warn_of_no_choice(engine, answer)
        handle = engine.submit(request)
        try:
            with in_options_words("the prompt", "shorten it, --truncate"):
                if as_json:
                    _print_deltas(engine, handle, answer["max_tokens"])
                else:
                    _print_text(handle, answer)
        finally:
            handle.cancel()


def _print_deltas(engine: "Engine", handle: "Handle[GenerateResult]", max_tokens: int | None) -> None:
    for delta in handle:
        more = {"limit": limit_reached(delta, max_tokens), "model": engine.model_id, "device": engine.device}
        click.echo(delta_json(delta, engine.tokenizer, **(more if delta.finish_reason else {})))


def _print_text(handle: "Handle[GenerateResult]", answer: dict[str, Any]) -> None:
    with shown(thoughts=answer["thinking"]) as show:
        for delta in handle:
            show(delta)
    click.echo(summary(delta, answer["max_tokens"]), err=True)


def _read(prompt: str | None) -> str:
    if prompt not in (None, "-"):
        return str(prompt)
    if prompt is None and sys.stdin.isatty():
        raise click.UsageError("give a prompt as an argument, or on stdin (`-` reads it here)")
    return stdin_text()
