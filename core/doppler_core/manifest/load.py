"""Manifests in and out: takes a path or a parsed object, gives a checked Manifest; gives its JSON back."""

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from doppler_core.errors import ManifestError
from doppler_core.manifest.checks import contradictions_within
from doppler_core.manifest.json_text import parse_object, read_text
from doppler_core.manifest.model import Manifest
from doppler_core.manifest.problems import describe


def load_manifest(source: str | PathLike[str] | Mapping[str, Any], name: str | None = None) -> Manifest:
    """The manifest at a path, or in an object already parsed; `name` stands for the file in messages.

    ManifestError: unreadable, not strict JSON, an unknown or missing field, a wrong type or value, fields that
    contradict each other. The message names the file and the JSON path, what was expected and what was found.
    """
    if isinstance(source, Mapping):
        data, name = dict(source), name or "manifest"
    else:
        path = Path(source)
        name = name or str(path)
        data = parse_object(read_text(path), name)
    try:
        manifest = Manifest.model_validate(data)
    except ValidationError as error:
        raise ManifestError(f"{name}: {describe(error.errors(include_url=False), Manifest)}") from None
    if problems := list(contradictions_within(manifest)):
        raise ManifestError(f"{name}: " + "\n  ".join(problems))
    return manifest


def manifest_json(manifest: Manifest) -> dict[str, Any]:
    """The manifest as JSON data: the fields it was loaded with, null where they were null."""
    return manifest.model_dump(mode="json", by_alias=True, exclude_unset=True)


def manifest_text(manifest: Manifest) -> str:
    """The manifest as the text of a JSON file."""
    return json.dumps(manifest_json(manifest), indent=2, ensure_ascii=False) + "\n"
