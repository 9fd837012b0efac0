"""The contract with plugins: one sentence per hook. It knows neither the loader nor the registry.

A plugin is a module (or object) named by an entry point of the group `doppler_plugins`, whose functions carry
`@doppler_plugins.hookimpl`. An implementation may leave out arguments it does not need. Each one is called
alone, so hook wrappers are refused: a failure stays with the plugin that failed.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pluggy

from doppler_core.settings import EngineSettings

if TYPE_CHECKING:
    import click

PROJECT = "doppler_plugins"

#: A plugin may state the version it was written for as DOPPLER_PLUGINS_API; another number is not loaded.
API_VERSION = 1

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

#: A class, or "module:Class", which is imported when the name is first used.
Factory = str | type[Any]


class RegisterModelType(Protocol):
    """Add a model type under a name; nothing counts until the hook that calls this returns."""

    def __call__(
        self,
        name: str,
        factory: Factory,
        *,
        aliases: Sequence[str] = (),
        architectures: Sequence[str] = (),
        description: str = "",
    ) -> None: ...


class RegisterAdapter(Protocol):
    """Add a framework adapter as `framework.kind`; the framework is imported when the adapter is used."""

    def __call__(
        self, name: str, factory: Factory, *, aliases: Sequence[str] = (), description: str = ""
    ) -> None: ...


@hookspec
def doppler_register_model_types(register: RegisterModelType) -> None:
    """Add model types (doppler_core.engine.model_type): what lowers a manifest to a plan and drives it.

    A model type may have `template() -> Mapping`: the manifest of a bare checkpoint of its architectures, with null
    for what the checkpoint says.
    """


@hookspec
def doppler_register_adapters(register: RegisterAdapter) -> None:
    """Add framework classes, so that they can be listed and found by name."""


@hookspec(firstresult=True)
def doppler_resolve_model(ref: str, settings: EngineSettings) -> Path | None:
    """Turn a model reference that nobody else knows into the folder of an artifact or a checkpoint."""


@hookspec
def doppler_register_commands(cli: "click.Group") -> None:
    """Add commands to the command line; a built-in command is never replaced."""


@hookspec
def doppler_engine_opened(engine: Any) -> None:
    """See an engine that has just been opened; a failure here is logged and the engine stays open."""
