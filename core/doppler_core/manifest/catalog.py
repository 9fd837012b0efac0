"""The manifests that come with this package: by name, by checkpoint and precision, and templates by architecture.

`manifests/catalog.json` holds what no manifest says: a checkpoint's default precision, the checkpoint of a manifest
that names none, and templates' architectures.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from doppler_core.errors import ManifestError, ModelNotFoundError
from doppler_core.manifest.json_text import parse_object, read_text
from doppler_core.manifest.problems import nearest
from doppler_core.settings import data_dir

CATALOG = "catalog.json"
_KEYS = {"defaultPrecision", "checkpoints", "templates"}


@dataclass(frozen=True)
class Shipped:
    """A manifest of this package: `precision` is its quantization.weights, `source` its checkpoint."""

    name: str
    path: Path
    source: str | None
    precision: str


def shipped() -> tuple[Shipped, ...]:
    """Every shipped manifest, sorted by name; templates are not among them."""
    return _shipped(data_dir("manifests"))


def shipped_manifest(name: str) -> Path:
    """The shipped manifest of this name. ModelNotFoundError names the nearest."""
    found = {entry.name: entry.path for entry in shipped()}
    if name not in found:
        raise ModelNotFoundError(f"no shipped manifest {name!r}; {nearest(name, tuple(found))}")
    return found[name]


def manifest_for(source: str, precision: str | None = None) -> Path | None:
    """The shipped manifest of a checkpoint (`org/name`) at a precision, or at its default; None: none is shipped.

    ModelNotFoundError: the checkpoint has shipped manifests, but none of this precision.
    """
    found = {entry.precision: entry.path for entry in shipped() if entry.source == source}
    if not found:
        return None
    wanted = precision or _catalog()["defaultPrecision"].get(source, next(iter(found)))
    if wanted not in found:
        raise ModelNotFoundError(
            f"precision={precision!r}: {source} has the shipped precisions {', '.join(sorted(found))}"
        )
    return found[wanted]


def template_for(architectures: Sequence[str]) -> Path | None:
    """The template for the first of a config.json's `architectures` that has one; None: none has."""
    templates = _catalog()["templates"]
    for architecture in architectures:
        if architecture in templates:
            return data_dir("manifests") / "templates" / f"{templates[architecture]}.json"
    return None


@cache
def _shipped(folder: Path) -> tuple[Shipped, ...]:
    entries, checkpoints = [], _catalog()["checkpoints"]
    for path in sorted(folder.glob("*.json")):
        if path.name == CATALOG:
            continue
        data = parse_object(read_text(path), str(path))
        identity = data.get("manifest", {}).get("artifactIdentity", {})
        source = identity.get("sourceCheckpointId") or checkpoints.get(path.stem)
        entries.append(Shipped(path.stem, path, source, data["quantization"]["weights"]))
    return tuple(entries)


def _catalog() -> dict[str, Any]:
    path = data_dir("manifests") / CATALOG
    data = parse_object(read_text(path), str(path))
    if set(data) != _KEYS:
        raise ManifestError(
            f"{path}: expected the keys {', '.join(sorted(_KEYS))}, found {json.dumps(sorted(data))}"
        )
    return data
