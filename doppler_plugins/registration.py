"""What plugins register, collected: from entry points that name a class, and from hooks that call `register`.

Takes a PluginManager, gives registrations. What a hook registers is staged and counts only if the hook returns;
a plugin that fails in one hook loses what its other hooks registered.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from doppler_core.errors import PluginError
from doppler_plugins.discovery import ADAPTERS, MODEL_TYPES, canonical, is_class_path
from doppler_plugins.hookspecs import Factory
from doppler_plugins.manager import PluginManager
from doppler_plugins.records import PluginRecord

Kind = Literal["model type", "adapter"]


@dataclass(frozen=True)
class Registration:
    """One name: what stands behind it and which plugin it came from. `key` is the plugin's record."""

    kind: Kind
    name: str
    factory: Factory
    key: int
    plugin: str
    distribution: str
    builtin: bool
    aliases: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    description: str = ""

    @property
    def qualified(self) -> str:
        """The name that is never ambiguous."""
        return f"{self.plugin}:{self.name}"


def collect(manager: PluginManager) -> tuple[Registration, ...]:
    """Everything registered, in the order of the records; it runs the registering hooks, so call it once."""
    staged = [*_declared(manager), *_hooked(manager)]
    return tuple(item for item in staged if not manager.record(item.key).is_problem)


def _declared(manager: PluginManager) -> Iterator[Registration]:
    kinds: dict[str, Kind] = {MODEL_TYPES: "model type", ADAPTERS: "adapter"}
    for key, record in enumerate(manager.records):
        if record.status == "declared":
            plugin = canonical(record.distribution)
            yield Registration(
                kinds[record.group],
                record.name,
                record.value,
                key,
                plugin,
                record.distribution,
                record.builtin,
            )


def _hooked(manager: PluginManager) -> Iterator[Registration]:
    hooks: dict[Kind, str] = {
        "model type": "doppler_register_model_types",
        "adapter": "doppler_register_adapters",
    }
    for kind, hook in hooks.items():
        for implementation in manager.implementations(hook):
            register = _Register(kind, implementation.key, manager.record(implementation.key), [])
            with manager.blaming(implementation):
                implementation(register=register)
            yield from register.staged


@dataclass(frozen=True)
class _Register:
    """The `register` a hook is given: it checks and stages."""

    kind: Kind
    key: int
    record: PluginRecord
    staged: list[Registration]

    def __call__(
        self,
        name: str,
        factory: Factory,
        *,
        aliases: Sequence[str] = (),
        architectures: Sequence[str] = (),
        description: str = "",
    ) -> None:
        short = canonical(name)
        if not short or ":" in short:
            raise PluginError(f"register({name!r}, ...): expected a name without ':'")
        if isinstance(factory, str) and not is_class_path(factory):
            raise PluginError(f"register({name!r}, {factory!r}): expected 'module:Class'")
        if not isinstance(factory, str) and not callable(factory):
            raise PluginError(f"register({name!r}, {factory!r}): expected a class or 'module:Class'")
        if isinstance(aliases, str) or isinstance(architectures, str):
            raise PluginError(f"register({name!r}, ...): aliases and architectures are sequences of names")
        if any(item.name == short for item in self.staged):
            raise PluginError(f"register({name!r}, ...): the plugin registers this name twice")
        self.staged.append(
            Registration(
                self.kind,
                short,
                factory,
                self.key,
                self.record.name,
                self.record.distribution,
                self.record.builtin,
                tuple(canonical(alias) for alias in aliases),
                tuple(architectures),
                description,
            )
        )
