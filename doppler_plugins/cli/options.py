"""The options that say how a model is opened, the same for every command; they become EngineSettings."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from doppler_core.settings import EngineSettings, read_bytes

Command = TypeVar("Command", bound=Callable[..., Any])


def _bytes(text: str) -> int:
    return read_bytes("size", text)


_SOURCE = {
    "precision": click.option(
        "--precision", help="Which of a checkpoint's shipped manifests: f16, q8_0, q4k."
    ),
    "manifest": click.option(
        "--manifest", help="A manifest's path, or the name of a shipped one, instead of the model's own."
    ),
    "cache_dir": click.option(
        "--cache-dir", type=click.Path(file_okay=False), help="Where converted models are kept."
    ),
    "revision": click.option("--revision", help="Commit or tag of an hf: model."),
    "offline": click.option("--offline", is_flag=True, default=None, help="Never use the network."),
}
_ENGINE = {
    "device": click.option(
        "--device", help="auto, numpy, wgpu, or wgpu:<part of a GPU adapter's name, or its index>."
    ),
    "kernel_profile": click.option(
        "--kernel-profile", help="Name of a kernel profile; without it, the first that fits."
    ),
    "context_length": click.option(
        "--context-length",
        type=click.IntRange(min=1),
        help="Most tokens of a text to embed, or of prompt and answer together; without it the model's own, at most 8192 where it "
        "generates.",
    ),
    "slots": click.option(
        "--slots",
        type=click.IntRange(min=1),
        help="Sequences that a generating model works on at once; without it 4.",
    ),
    "memory_limit": click.option(
        "--memory-limit",
        type=_bytes,
        metavar="BYTES",
        help="What all engines of the process may use, as 8GB or 7.5GiB; without it 80 % of what is free.",
    ),
}
_MACHINE = {
    name: (_ENGINE | _SOURCE)[name] for name in ("device", "kernel_profile", "memory_limit", "cache_dir")
}


def source_options(command: Command) -> Command:
    """Add what says which model is meant, and pass `settings` to the command in its place."""
    return _collecting(command, _SOURCE)


def engine_options(command: Command) -> Command:
    """Add all options of an engine, and pass `settings` to the command in their place."""
    return _collecting(command, _ENGINE | _SOURCE)


def machine_options(command: Command) -> Command:
    """Add what says where models run and are kept, whichever they are, and pass `settings` in their place."""
    return _collecting(command, _MACHINE)


def _collecting(command: Command, options: Mapping[str, Callable[[Any], Any]]) -> Command:
    @functools.wraps(command)
    def collect(*positional: Any, **arguments: Any) -> Any:
        chosen = {name: arguments.pop(name) for name in options}
        return command(*positional, settings=EngineSettings.from_environment(**chosen), **arguments)

    for option in reversed(list(options.values())):
        collect = option(collect)
    return collect  # type: ignore[return-value]


cache_option, revision_option, offline_option = (
    _SOURCE[name] for name in ("cache_dir", "revision", "offline")
)
