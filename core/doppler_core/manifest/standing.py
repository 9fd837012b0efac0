"""The standing of manifest fields: what a model type uses, what it may use, what it must not find, what it leaves.

No field is read and ignored silently: a value outside a field's rule is an error, and what is left unused is listed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from doppler_core.errors import ManifestError
from doppler_core.manifest.load import manifest_json
from doppler_core.manifest.model import Manifest
from doppler_core.manifest.problems import found
from doppler_core.manifest.standing_inference import INFERENCE
from doppler_core.manifest.standing_rows import MODEL_TYPES, Row, Rule, Standing
from doppler_core.manifest.standing_session import SESSION

TABLE: Mapping[str, Row] = {row.path: row for row in (*INFERENCE, *SESSION)}


@dataclass(frozen=True)
class Listed:
    """What `plan` prints of a field, or of a whole section whose fields share one standing and one reason."""

    where: str
    standing: Standing
    reason: str


def rule(path: str, model_type: str) -> Rule | None:
    """The rule for a leaf's path (as leaf_paths writes it); None: a plugin's model type, which decides itself."""
    return TABLE[path].rules.get(model_type)


def standings(manifest: Manifest, model_type: str) -> tuple[Listed, ...]:
    """What this model type does not simply use: sections where they share a reason, else fields. Nulls are left out.

    ManifestError: a value that the model type does not take, with its path, what it takes and why. A model type
    that is not one of ours decides itself: nothing is listed.
    """
    if model_type not in MODEL_TYPES:
        return ()
    leaves = list(_leaves(manifest_json(manifest), "", ""))
    wrong = [
        f"{path}: the model type {model_type} expects {_values(rule)}, found {found(value)}; {row.reason}"
        for path, row, value in leaves
        if value is not None
        and (rule := row.rules[model_type]).only is not None
        and not any(_same(value, allowed) for allowed in rule.only)
    ]
    if wrong:
        raise ManifestError("\n  ".join(wrong))
    ruled = [(path, row.rules[model_type], row, value) for path, row, value in leaves]
    return tuple(
        _grouped([(path, rule, rule.reason or row.reason, value) for path, rule, row, value in ruled])
    )


def _leaves(value: Any, path: str, pattern: str) -> Iterator[tuple[str, Row, Any]]:
    if pattern in TABLE:
        yield path, TABLE[pattern], value
    elif isinstance(value, dict):
        for key, child in value.items():
            name = "*" if pattern == "execution.kernels" else key
            yield from _leaves(child, f"{path}.{key}".lstrip("."), f"{pattern}.{name}".lstrip("."))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _leaves(child, f"{path}[{index}]", f"{pattern}[]")


def _same(value: Any, allowed: Any) -> bool:
    """Equality that keeps true and 1 apart."""
    return bool(value == allowed) and isinstance(value, bool) == isinstance(allowed, bool)


def _values(rule: Rule) -> str:
    return " or ".join(map(found, rule.only)) if rule.only else "null"


def _grouped(leaves: list[tuple[str, Rule, str, Any]]) -> Iterator[Listed]:
    """Leaves that are not simply used; the highest section all of whose leaves share standing and reason for them."""
    spoken: dict[str, set[tuple[Standing, str]]] = {}
    for path, rule, reason, _ in leaves:
        for section in _sections(path):
            spoken.setdefault(section, set()).add((rule.standing, reason))
    given: set[str] = set()
    for path, rule, reason, value in leaves:
        if rule.standing == "implemented" or value is None:
            continue
        where = next((section for section in _sections(path) if len(spoken[section]) == 1), path)
        if where not in given:
            given.add(where)
            yield Listed(where, rule.standing, reason)


def _sections(path: str) -> list[str]:
    """The sections around a path, the outermost first."""
    parts = path.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]
