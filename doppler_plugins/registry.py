"""Names of model types and framework adapters, and the classes behind them, imported when first used.

Takes what a PluginManager loaded, gives a fixed table. A name is compared in canonical form. A built-in is never
shadowed; a name that two other distributions register is ambiguous, and `plugin:name` says which is meant.
"""

import logging
import threading
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from doppler_core.errors import PluginError
from doppler_plugins.discovery import canonical, find_declarations, load_object
from doppler_plugins.manager import PluginManager, api_mismatch, describe
from doppler_plugins.records import PluginRecord, Policy, require_healthy
from doppler_plugins.registration import Kind, Registration, collect
from doppler_plugins.requirements import explain_missing

logger = logging.getLogger(__name__)


class Registry:
    """The names one discovery found. It does not change afterwards; classes are imported on demand."""

    def __init__(self, manager: PluginManager) -> None:
        self.manager = manager
        self.registrations = collect(manager)
        self._note_provided()

    @property
    def records(self) -> tuple[PluginRecord, ...]:
        """One record per plugin and declared name."""
        return self.manager.records

    def model_type(self, name: str) -> Any:
        """The model type of that name, an instance; raise PluginError if there is none or it can't be imported."""
        return self.load(self.find("model type", name))

    def adapter(self, name: str) -> Any:
        """The framework class of that name; raise PluginError as `model_type` does."""
        return self.load(self.find("adapter", name))

    def model_type_for(self, architectures: Sequence[str]) -> Any | None:
        """The model type that names one of a checkpoint's architectures, built-ins first; None if no plugin does."""
        wanted = set(architectures)
        found = [item for item in self._of("model type") if wanted & set(self._architectures(item))]
        found = [item for item in found if item.builtin] or found
        if len(found) > 1:
            choices = " and ".join(item.qualified for item in found)
            raise PluginError(
                f"architectures {sorted(wanted)}: {choices} both take them; give a manifest whose modelType says which"
            )
        return self.load(found[0]) if found else None

    def _architectures(self, item: Registration) -> Sequence[str]:
        """What a registration says, else what its class says; nothing if that can't be imported."""
        if item.architectures:
            return item.architectures
        try:
            return tuple(self.load(item).architectures)
        except PluginError as error:
            logger.debug("%s can't be asked for its architectures", item.qualified, exc_info=True)
            # A plugin with hooks stays: one class of it that fails takes nothing from the others.
            if self.manager.record(item.key).status == "declared":
                self.manager.fail(item.key, str(error))
            return ()

    def find(self, kind: Kind, name: str) -> Registration:
        """The registration a name means: `plugin:name`, the exact name, an alias; built-ins first."""
        plugin, _, short = name.rpartition(":")
        wanted, owner = canonical(short), canonical(plugin)
        candidates = [
            item
            for item in self._of(kind)
            if not plugin or owner in (item.plugin, canonical(item.distribution))
        ]
        for match in (
            [item for item in candidates if item.name == wanted],
            [item for item in candidates if wanted in item.aliases],
        ):
            if builtin := [item for item in match if item.builtin]:
                return builtin[0]
            if len(match) == 1:
                return match[0]
            if match:
                choices = " or ".join(repr(item.qualified) for item in match)
                raise PluginError(f"{kind} {name!r} is registered by {len(match)} plugins: say {choices}")
        raise PluginError(self._unknown(kind, name, wanted))

    def load(self, item: Registration) -> Any:
        """Import what a registration names and check that it is what it claims to be."""
        record = self.manager.record(item.key)
        where = f"{item.kind} {item.qualified!r} of {record.distribution} {record.version}"
        missing = explain_missing(item.name, item.distribution) if item.kind == "adapter" else ""
        if missing:
            raise PluginError(f"{where} needs {missing}")
        try:
            loaded = load_object(item.factory) if isinstance(item.factory, str) else item.factory
            problem = api_mismatch(loaded)
            if not problem and item.kind == "model type":
                loaded = loaded() if isinstance(loaded, type) else loaded
                problem = _incomplete(loaded)
        except (Exception, SystemExit) as error:
            raise PluginError(f"{where} can't be loaded: {describe(error)}") from error
        if problem:
            raise PluginError(f"{where} can't be used: {problem}")
        return loaded

    def check(self) -> tuple[PluginRecord, ...]:
        """Import everything that is declared, and give the records with what came of it."""
        for item in self.registrations:
            record = self.manager.record(item.key)
            missing = explain_missing(item.name, item.distribution) if item.kind == "adapter" else ""
            if missing:
                self.manager.update(item.key, status="unavailable", reason=f"needs {missing}")
                continue
            try:
                self.load(item)
            except PluginError as error:
                self.manager.fail(item.key, str(error))
            else:
                if record.status == "declared":
                    self.manager.update(item.key, status="loaded")
        return self.records

    def not_loaded(self) -> str:
        """For messages that miss something: a line for each plugin that does not count, with the reason."""
        lost = [record.sentence for record in self.records if record.is_problem or record.status == "blocked"]
        return "".join(f"\n  plugin not loaded: {sentence}" for sentence in lost)

    def _of(self, kind: Kind) -> Iterator[Registration]:
        return (item for item in self.registrations if item.kind == kind)

    def _note_provided(self) -> None:
        builtin = {(item.kind, item.name) for item in self.registrations if item.builtin}
        for item in self.registrations:
            record = self.manager.record(item.key)
            provides = (*record.provides, f"{item.kind} {item.name}")
            warnings = record.warnings
            if not item.builtin and (item.kind, item.name) in builtin:
                warnings += (f"{item.name} is a built-in's name: this one is {item.qualified}",)
            self.manager.update(item.key, provides=provides, warnings=warnings)

    def _unknown(self, kind: Kind, name: str, wanted: str) -> str:
        names = sorted({item.name for item in self._of(kind)})
        near = get_close_matches(wanted, names, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names) or 'none'}"
        return f"no plugin registers the {kind} {name!r}; {hint}{self.not_loaded()}"


def build_registry(path: Sequence[str] | None = None, policy: Policy | None = None) -> Registry:
    """Discover plugins on `path` (None = the import path) under a policy (None = the environment's)."""
    policy = policy or Policy.from_environment()
    registry = Registry(PluginManager(find_declarations(path), policy))
    if policy.strict:
        require_healthy(registry.records)
    return registry


_lock = threading.RLock()
_registry: Registry | None = None


def plugins(*, refresh: bool = False) -> Registry:
    """The process's registry, built on first use (or again, to see what was installed since)."""
    global _registry
    with _lock:
        if _registry is None or refresh:
            _registry = build_registry()
        return _registry


def _incomplete(model_type: Any) -> str:
    wanted = ("name", "architectures", "capabilities", "lower", "driver")
    lacking = [name for name in wanted if not hasattr(model_type, name)]
    return f"{type(model_type).__name__} lacks {', '.join(lacking)}" if lacking else ""
