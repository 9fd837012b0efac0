"""Loads plugins so that none can hurt another, and calls their hooks one implementation at a time.

Takes declarations and a policy, keeps one record per declaration. It knows nothing of model types and adapters.
"""

import importlib
import inspect
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import pluggy

from doppler_plugins import hookspecs
from doppler_plugins.discovery import HOOKS, Declaration, canonical, load_object
from doppler_plugins.hookspecs import API_VERSION, PROJECT
from doppler_plugins.records import PluginRecord, Policy, Status

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Implementation:
    """One plugin's implementation of a hook; called with all arguments of the hook, it passes on those it takes."""

    key: int
    plugin: str
    hook: str
    function: Callable[..., Any]
    takes: tuple[str, ...]

    def __call__(self, **arguments: Any) -> Any:
        return self.function(**{name: arguments[name] for name in self.takes})


class PluginManager:
    """The plugins of one discovery: their records, and their hooks."""

    def __init__(self, declarations: tuple[Declaration, ...], policy: Policy) -> None:
        self._hooks = pluggy.PluginManager(PROJECT)
        self._hooks.add_hookspecs(hookspecs)
        self._lock = threading.Lock()
        self._records: dict[int, PluginRecord] = {}
        self._plugins: dict[int, Any] = {}
        taken: dict[tuple[object, ...], Declaration] = {}
        for key, declaration in enumerate(declarations):
            slot = _slot(declaration)
            self._records[key] = record = _record(declaration, policy, taken.get(slot))
            if record.status == "loaded":
                self._load(key, record)
            if not self._records[key].is_problem and record.status != "blocked":
                taken[slot] = declaration
        known = {name for item in declarations for name in (item.name, canonical(item.distribution))}
        for name in sorted((policy.allow or frozenset()) - known):
            reason = "DOPPLER_PLUGINS_ALLOW names it, but no installed distribution declares it"
            self._records[len(self._records)] = PluginRecord(
                HOOKS, name, "", "-", "-", False, "missing", reason
            )

    @property
    def records(self) -> tuple[PluginRecord, ...]:
        """All records, in the order of the declarations."""
        with self._lock:
            return tuple(self._records.values())

    def record(self, key: int) -> PluginRecord:
        """The record of one declaration, as it is now."""
        with self._lock:
            return self._records[key]

    def update(self, key: int, **changes: Any) -> None:
        """Replace fields of a record."""
        with self._lock:
            self._records[key] = replace(self._records[key], **changes)

    def implementations(self, hook: str) -> Iterator[Implementation]:
        """The implementations of a hook in plugin order (`tryfirst` and `trylast` respected); failed plugins have none."""
        keys = {id(plugin): key for key, plugin in self._plugins.items()}
        found = getattr(self._hooks.hook, hook).get_hookimpls()
        for item in sorted(found, key=lambda item: (item.trylast - item.tryfirst, keys[id(item.plugin)])):
            key = keys[id(item.plugin)]
            record = self.record(key)
            if record.status == "loaded":
                yield Implementation(key, record.name, hook, item.function, item.argnames)

    @contextmanager
    def blaming(self, implementation: Implementation) -> Iterator[None]:
        """Let what goes wrong inside mark that plugin as failed, and nothing else."""
        try:
            yield
        except (Exception, SystemExit) as error:
            self.fail(implementation.key, f"{implementation.hook}: {describe(error)}")
            logger.warning("plugin %s: %s failed", implementation.plugin, implementation.hook, exc_info=True)

    def fail(self, key: int, reason: str) -> None:
        """Take a plugin out, with the reason."""
        self.update(key, status="failed", reason=reason, provides=())

    def _load(self, key: int, record: PluginRecord) -> None:
        try:
            plugin = load_object(record.value)
        except (Exception, SystemExit) as error:
            self.fail(key, describe(error))
            logger.debug("plugin %s can't be imported", record.name, exc_info=True)
            return
        if reason := api_mismatch(plugin):
            self.update(key, status="incompatible", reason=reason)
            return
        try:
            self._hooks.register(plugin, name=str(key))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the reason is listed
            self.fail(key, describe(error))
            return
        self._plugins[key] = plugin
        self._inspect(key, plugin)

    def _inspect(self, key: int, plugin: Any) -> None:
        callers = self._hooks.get_hookcallers(plugin) or []
        specs = sorted(name for name in vars(hookspecs) if name.startswith("doppler_"))
        warnings = [] if callers else ["it implements no hook: functions need @doppler_plugins.hookimpl"]
        for caller in callers:
            own = [item for item in caller.get_hookimpls() if item.plugin is plugin]
            if any(item.wrapper or item.hookwrapper for item in own):
                self.fail(
                    key,
                    f"{caller.name}: hook wrappers are not supported, each implementation is called alone",
                )
            elif any(inspect.iscoroutinefunction(item.function) for item in own):
                self.fail(key, f"{caller.name}: expected a plain function, found a coroutine function")
            if caller.spec is None:
                near = get_close_matches(caller.name, specs, n=1)
                hint = f"; did you mean {near[0]}?" if near else " in this version"
                warnings.append(f"there is no hook {caller.name}{hint}")
        self.update(key, hooks=tuple(sorted(caller.name for caller in callers)), warnings=tuple(warnings))


def api_mismatch(plugin: Any) -> str:
    """Why a plugin's DOPPLER_PLUGINS_API (on it, or on its class's module) does not fit, or an empty string."""
    wanted = getattr(plugin, "DOPPLER_PLUGINS_API", None)
    if wanted is None and isinstance(plugin, type):
        wanted = getattr(importlib.import_module(plugin.__module__), "DOPPLER_PLUGINS_API", None)
    if wanted is None or (type(wanted) is int and wanted == API_VERSION):
        return ""
    return f"it is written for DOPPLER_PLUGINS_API = {wanted!r}, this version has {API_VERSION}"


def describe(error: BaseException) -> str:
    """An exception in one line: its type and text."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _slot(declaration: Declaration) -> tuple[object, ...]:
    """What only one declaration may have: a plugin's name in this process, a model type's name in its distribution.

    A model type of two distributions is a conflict of names, not of plugins: the registry asks for a qualified name.
    """
    distribution = None if declaration.group == HOOKS else declaration.distribution
    return (declaration.group, declaration.name, distribution)


def _record(declaration: Declaration, policy: Policy, owner: Declaration | None) -> PluginRecord:
    status: Status = "loaded" if declaration.group == HOOKS else "declared"
    reason = ""
    if refusal := policy.refusal(declaration):
        status, reason = "blocked", refusal
    elif declaration.problem:
        status, reason = "failed", declaration.problem
    elif owner is not None:
        status, reason = "duplicate", f"the name is taken by {owner.origin} ({owner.value})"
    return PluginRecord(
        declaration.group,
        declaration.name,
        declaration.value,
        declaration.distribution,
        declaration.version,
        declaration.builtin,
        status,
        reason,
    )
