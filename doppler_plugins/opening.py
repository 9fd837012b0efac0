"""Opens models: from what a user calls a model, through its artifact and manifest, to a shared engine."""

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from doppler_core.errors import SettingsError
from doppler_core.settings import EngineSettings, Progress
from doppler_plugins.conversion import (
    cached_artifact,
    model_type_of,
    override_manifest,
    resolve_checkpoint,
    without_source,
)
from doppler_plugins.registry import plugins
from doppler_plugins.sharing import share
from doppler_plugins.sources import is_artifact, locate

if TYPE_CHECKING:
    from doppler_core.engine.engine import Engine
    from doppler_core.manifest.model import Manifest
    from doppler_core.plan.op import Plan

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Prepared:
    """An artifact's folder, and the manifest to run it with where that is not its own."""

    path: Path
    manifest: "Manifest | None"


def open_engine(
    model: str | os.PathLike[str],
    settings: EngineSettings | None = None,
    progress: Progress | None = None,
) -> "Engine":
    """Open a model, or share the engine that is open with the same settings. Close what you get, or use `with`.

    model: an artifact's folder, a Hugging Face folder (converted once, into the cache), `hf:org/name[@revision]`, a
    bundled or cached name, or what a plugin resolves. progress: called with what is done, how much, of how much.
    Raises ModelNotFoundError, and every DopplerError that a manifest, a file or a device deserves.
    """
    settings = EngineSettings() if settings is None else settings
    prepared = prepare(os.fsdecode(model), settings, progress)
    stamp = (prepared.path / "artifact.json").stat()
    manifest = "" if prepared.manifest is None else repr(prepared.manifest)
    key = (prepared.path.resolve(), stamp.st_mtime_ns, stamp.st_size, manifest, without_source(settings))
    return share(key, lambda: _open(prepared, settings, progress))


def plan_of(
    model: str | os.PathLike[str], settings: EngineSettings | None = None, progress: Progress | None = None
) -> "Plan":
    """The plan that `open_engine` would run, for the device it would run on; no weights are loaded."""
    from doppler_core.engine.assembly import lower_artifact

    settings = EngineSettings() if settings is None else settings
    prepared = prepare(os.fsdecode(model), settings, progress)
    return lower_artifact(prepared.path, prepared.manifest, model_type_of, settings, progress).plan


def prepare(model: str, settings: EngineSettings, progress: Progress | None = None) -> Prepared:
    """The artifact of a model, converted if it has to be.

    A checkpoint runs with the manifest that this version chooses for it, also when its artifact was made by an older
    one; an artifact runs with its own, or with the one that the settings name.
    """
    from doppler_core.weights.files import field, read_json_object, reading

    with reading():
        path = locate(model, settings)
        is_converted = is_artifact(path)
    if not is_converted:
        found = resolve_checkpoint(path, settings)
        return Prepared(cached_artifact(found, settings, progress), found.manifest)
    file = path / "manifest.json"
    own = read_json_object(file)
    stored = field(own, "quantization", dict, file, "manifest").get("weights")
    if settings.precision not in (None, stored):
        raise SettingsError(
            f"precision={settings.precision!r}: {path} is an artifact with {stored} weights; a precision is chosen "
            "when a checkpoint is converted"
        )
    return Prepared(path, None if settings.manifest is None else override_manifest(settings.manifest, own))


def _open(prepared: Prepared, settings: EngineSettings, progress: Progress | None) -> "Engine":
    from doppler_core.engine.assembly import assemble, lower_artifact

    lowered = lower_artifact(prepared.path, prepared.manifest, model_type_of, settings, progress)
    engine = assemble(lowered, settings, progress)
    _announce(engine)
    return engine


def _announce(engine: "Engine") -> None:
    manager = plugins().manager
    for implementation in manager.implementations("doppler_engine_opened"):
        try:
            implementation(engine=engine)
        except Exception:
            logger.warning("plugin %s: doppler_engine_opened failed", implementation.plugin, exc_info=True)
