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
    files_in_place,
    model_type_of,
    override_manifest,
    resolve_checkpoint,
    without_source,
)
from doppler_plugins.registry import plugins
from doppler_plugins.sharing import share
from doppler_plugins.sources import is_artifact, locate
from doppler_plugins.variables import warn_of_unknown

if TYPE_CHECKING:
    from doppler_core.engine.assembly import Lowered
    from doppler_core.engine.engine import Engine
    from doppler_core.manifest.model import Manifest
    from doppler_core.plan.op import Plan
    from doppler_plugins.conversion import Resolvable

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Prepared:
    """A model that is ready to be opened.

    path: an artifact's folder, or a GGUF file. manifest: the one to run it with, None = the artifact's own.
    found: what was read of a GGUF file.
    """

    path: Path
    manifest: "Manifest | None"
    found: "Resolvable | None" = None

    @property
    def stamped(self) -> Path:
        """The file that changes whenever the model does."""
        return self.path if self.found else self.path / "artifact.json"


def open_engine(
    model: str | os.PathLike[str],
    settings: EngineSettings | None = None,
    progress: Progress | None = None,
) -> "Engine":
    """Open a model, or share the engine that is open with the same settings. Close what you get, or use `with`.

    model: an artifact's folder, a GGUF file, a Hugging Face folder (converted once, into the cache),
    `hf:org/name[@revision]`, a bundled or cached name, or what a plugin resolves. progress: called with what is done, how much, of how much.
    Raises ModelNotFoundError, and every DopplerError that a manifest, a file or a device deserves.
    """
    warn_of_unknown()
    settings = _chosen(settings)
    prepared = prepare(os.fsdecode(model), settings, progress)
    stamp = prepared.stamped.stat()
    manifest = "" if prepared.manifest is None else repr(prepared.manifest)
    key = (prepared.path.resolve(), stamp.st_mtime_ns, stamp.st_size, manifest, without_source(settings))
    return share(key, lambda: _open(prepared, settings, progress))


def plan_of(
    model: str | os.PathLike[str], settings: EngineSettings | None = None, progress: Progress | None = None
) -> "Plan":
    """The plan that `open_engine` would run, for the device it would run on; no weights are loaded."""
    settings = _chosen(settings)
    return _lower(prepare(os.fsdecode(model), settings, progress), settings, progress).plan


def prepare(model: str, settings: EngineSettings, progress: Progress | None = None) -> Prepared:
    """A model's artifact, converted if it has to be, or a GGUF file as it is.

    A checkpoint runs with the manifest that this version chooses for it, also when its artifact was made by an older
    one; an artifact runs with its own, or with the one that the settings name.
    """
    from doppler_core.weights.files import field, read_json_object, reading

    with reading():
        path = locate(model, settings)
        is_converted = is_artifact(path)
    if path.is_file():
        return _in_place(path, settings)
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


def _chosen(settings: EngineSettings | None) -> EngineSettings:
    if settings is None:
        return EngineSettings()
    if not isinstance(settings, EngineSettings):
        raise TypeError(f"settings is {type(settings).__name__}: expected EngineSettings(...), or None")
    return settings


def _in_place(path: Path, settings: EngineSettings) -> Prepared:
    if settings.precision is not None:
        raise SettingsError(
            f"precision={settings.precision!r}: {path} is a GGUF file, whose weights are what they are; convert it with "
            "this precision (`doppler-plugins convert`), or leave the precision out"
        )
    found = resolve_checkpoint(path, settings)
    return Prepared(found.checkpoint.path, found.manifest, found)


def _lower(prepared: Prepared, settings: EngineSettings, progress: Progress | None) -> "Lowered":
    from doppler_core.engine.assembly import lower_model
    from doppler_core.weights.artifact import open_artifact

    found = prepared.found
    files = open_artifact(prepared.path, progress) if found is None else files_in_place(found)
    return lower_model(files, prepared.manifest, model_type_of, settings)


def _open(prepared: Prepared, settings: EngineSettings, progress: Progress | None) -> "Engine":
    from doppler_core.engine.assembly import assemble

    engine = assemble(_lower(prepared, settings, progress), settings, progress)
    _announce(engine)
    return engine


def _announce(engine: "Engine") -> None:
    manager = plugins().manager
    for implementation in manager.implementations("doppler_engine_opened"):
        try:
            implementation(engine=engine)
        except Exception:
            logger.warning("plugin %s: doppler_engine_opened failed", implementation.plugin, exc_info=True)
