"""What `generate` and `chat` share: the options of an answer, and what of them does nothing or went wrong."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from doppler_core.errors import InputError, NoChatFormatError, TextTooLongError

if TYPE_CHECKING:
    from doppler_core.engine.engine import Engine

Command = TypeVar("Command", bound=Callable[..., Any])

_CHAT_FORMATS = ("gemma3", "gemma4")
_CHOOSING = (
    "top_k",
    "top_p",
    "min_p",
    "seed",
)  # these choose among tokens, of which temperature 0 leaves one

_OPTIONS = {
    "max_tokens": click.option(
        "--max-tokens",
        type=int,
        help="Most tokens to make; without it, to the context's end, or as many as the manifest of a model that makes "
        "canvases says.",
    ),
    "temperature": click.option(
        "--temperature",
        type=float,
        help="0 = always the likeliest token. Without it, and without those below, as the model's "
        "generation_config.json says; where that says nothing, the likeliest token.",
    ),
    "top_k": click.option("--top-k", type=int, help="Choose among so many likeliest tokens; 0 = all."),
    "top_p": click.option(
        "--top-p", type=float, help="Choose among the likeliest that have this probability together."
    ),
    "min_p": click.option(
        "--min-p", type=float, help="Choose among those at least this probable, relative to the likeliest."
    ),
    "repetition_penalty": click.option(
        "--repetition-penalty", type=float, help="Over 1: tokens that were there already become less likely."
    ),
    "presence_penalty": click.option(
        "--presence-penalty", type=float, help="Over 0: tokens that the answer has already, less likely."
    ),
    "frequency_penalty": click.option(
        "--frequency-penalty", type=float, help="The same, for each time that the answer has them."
    ),
    "seed": click.option(
        "--seed", type=int, help="The same seed, the same text; without it another each time."
    ),
    "steps": click.option(
        "--steps", type=int, help="Most steps of a canvas, for a model that makes its text in canvases."
    ),
    "stop": click.option("--stop", multiple=True, help="A text that ends the answer. May be repeated."),
    "chat_format": click.option(
        "--chat-format",
        type=click.Choice(_CHAT_FORMATS),
        help="In place of the model's own chat format.",
    ),
    "thinking": click.option(
        "--think",
        "thinking",
        is_flag=True,
        help="Let the model think before it answers; its thoughts go to stderr.",
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


def warn_of_no_choice(engine: "Engine", answer: dict[str, Any]) -> None:
    """Say on stderr which options do nothing, where the temperature in force is 0."""
    if engine.capabilities.streams_drafts:
        return  # a canvas is noisy at any temperature
    given = [f"--{name.replace('_', '-')}" for name in _CHOOSING if answer[name] is not None]
    asked = answer["temperature"]
    if not given or (engine.defaults.temperature if asked is None else asked) != 0:
        return
    whose = "" if asked is not None else ", which is this model's own"
    click.echo(
        f"warning: {', '.join(given)}: nothing to choose at temperature 0{whose}; give --temperature 1, or less",
        err=True,
    )


@contextmanager
def in_options_words(what: str, shorter: str) -> Iterator[None]:
    """Errors that name fields of a request name options. what: what is too long; shorter: how it gets shorter."""
    try:
        yield
    except TextTooLongError as error:
        raise TextTooLongError(
            f"{what} has {error.tokens} tokens and the context {error.limit}: {shorter}, or give a larger "
            "--context-length",
            index=error.index,
            tokens=error.tokens,
            limit=error.limit,
        ) from error
    except NoChatFormatError as error:
        raise NoChatFormatError(
            "this model has no chat format: it is a base model, which goes on with a text; `generate` it without --chat, "
            f"or give --chat-format ({' or '.join(error.formats)}) if it was taught one",
            formats=error.formats,
        ) from error
    except InputError as error:
        name, _, rest = str(error).partition("=")
        if name not in _OPTIONS:
            raise
        option = f"--{name.replace('_', '-')}"
        raise InputError(f"{option}={rest.removesuffix(', or None')}") from error  # None is to leave it out
