"""What is known about each plugin, and which may load: plain data, read from the environment once.

Takes declarations and the variables DOPPLER_PLUGINS_ALLOW, _BLOCK and _STRICT. Nothing is imported or called here.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from doppler_core.errors import PluginError
from doppler_plugins.discovery import Declaration, Group, canonical

Status = Literal[
    "loaded",  # imported, its hooks are called
    "declared",  # a name and a class, imported when used
    "unavailable",  # a built-in whose extra is not installed
    "blocked",  # by DOPPLER_PLUGINS_ALLOW or DOPPLER_PLUGINS_BLOCK
    "missing",  # named in DOPPLER_PLUGINS_ALLOW, installed nowhere
    "duplicate",  # another plugin has the name
    "incompatible",  # written for another version of the hooks
    "failed",  # it raised, or is not what it claims to be
]
#: What says which plugins may load.
VARIABLES = ("DOPPLER_PLUGINS_ALLOW", "DOPPLER_PLUGINS_BLOCK", "DOPPLER_PLUGINS_STRICT")
PROBLEMS: frozenset[Status] = frozenset({"missing", "duplicate", "incompatible", "failed"})


@dataclass(frozen=True)
class PluginRecord:
    """What is known about one declaration. `hooks` and `provides` name what it adds, if it counts."""

    group: Group
    name: str
    value: str
    distribution: str
    version: str
    builtin: bool
    status: Status
    reason: str = ""
    hooks: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def is_problem(self) -> bool:
        """True if somebody should look at it."""
        return self.status in PROBLEMS

    @property
    def sentence(self) -> str:
        """One line for messages: which plugin, its status and the reason."""
        return f"{self.name} ({self.distribution} {self.version}) {self.status}: {self.reason}"


@dataclass(frozen=True)
class Policy:
    """Which third-party plugins may load. `allow` None = all; `strict` = a problem raises instead of being listed."""

    allow: frozenset[str] | None = None
    block: frozenset[str] = frozenset()
    strict: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> "Policy":
        """Read DOPPLER_PLUGINS_ALLOW (empty = none), DOPPLER_PLUGINS_BLOCK and DOPPLER_PLUGINS_STRICT."""
        environment = os.environ if environment is None else environment
        allow = environment.get("DOPPLER_PLUGINS_ALLOW")
        return cls(
            allow=None if allow is None else _names(allow),
            block=_names(environment.get("DOPPLER_PLUGINS_BLOCK", "")),
            strict=environment.get("DOPPLER_PLUGINS_STRICT", "0").lower()
            not in ("", "0", "false", "no", "off"),
        )

    def refusal(self, declaration: Declaration) -> str:
        """Why a declaration may not load, or an empty string. Built-ins always may."""
        names = {declaration.name, canonical(declaration.distribution)}
        if declaration.builtin:
            return ""
        if names & self.block:
            return "DOPPLER_PLUGINS_BLOCK names it"
        if self.allow is not None and not names & self.allow:
            return "DOPPLER_PLUGINS_ALLOW does not name it"
        return ""


def _names(text: str) -> frozenset[str]:
    return frozenset(canonical(part) for part in text.split(",") if part.strip())


def require_healthy(records: Iterable[PluginRecord]) -> None:
    """Raise PluginError with all reasons if any record is a problem: what DOPPLER_PLUGINS_STRICT=1 asks for."""
    problems = [record.sentence for record in records if record.is_problem]
    if problems:
        raise PluginError(
            "DOPPLER_PLUGINS_STRICT is set, and these plugins have problems:\n  " + "\n  ".join(problems)
        )
