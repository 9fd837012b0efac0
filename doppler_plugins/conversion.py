"""From a publisher's folder or a GGUF file to an artifact: which manifest it gets, where it is kept, when it is made.

Takes a checkpoint's path and settings, gives the artifact's folder and the resolved manifest. A folder is converted
once: the cache's name for it depends on the weights and on how they are stored, not on where the folder lies.
"""

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from doppler_core.errors import FileFormatError, ManifestError, ModelNotFoundError, PluginError
from doppler_core.settings import EngineSettings, Progress, cache_dir, expanded
from doppler_plugins.registry import plugins

if TYPE_CHECKING:
    from doppler_core.manifest.model import Manifest
    from doppler_core.manifest.resolve import Resolution
    from doppler_core.weights.checkpoint import Checkpoint
    from doppler_core.weights.convert import Conversion, Existing
    from doppler_core.weights.model_files import ModelFiles
    from doppler_core.weights.table import TensorTable

_SAMPLE_BYTES = 4096
_ROLES = ("weights", "embeddings", "lmHead")
_READ = (
    "tokenizer_config.json",
    "generation_config.json",
)  # what manifests are resolved from beside the config


@dataclass(frozen=True)
class Resolvable:
    """A checkpoint with its manifest, nulls filled in; `resolutions` say from where, `origin` where it is from."""

    checkpoint: "Checkpoint"
    manifest: "Manifest"
    resolutions: "tuple[Resolution, ...]"
    origin: str


def resolve_checkpoint(path: Path, settings: EngineSettings) -> Resolvable:
    """Read a checkpoint's headers and resolve the manifest that the settings choose for it.

    path: a publisher's folder, or a GGUF file, whose tokenizer files are made in the cache.
    """
    from doppler_core.manifest.load import load_manifest
    from doppler_core.manifest.resolve import resolve
    from doppler_core.weights.files import read_json_object

    checkpoint = _read(path, settings)
    data, origin = _choose(checkpoint, settings)
    sentence = None if checkpoint.sentence is None else asdict(checkpoint.sentence)
    said = {
        name: read_json_object(file) for name, file in checkpoint.tokenizer_files.items() if name in _READ
    }
    try:
        resolved = resolve(
            load_manifest(data, origin), checkpoint.config, sentence, *(said.get(name) for name in _READ)
        )
    except ManifestError as error:
        raise type(error)(f"{path}: {error}") from error
    return Resolvable(checkpoint, resolved.manifest, resolved.resolutions, origin)


def files_in_place(found: Resolvable) -> "ModelFiles":
    """What an engine runs a GGUF file from, where it lies; its identity costs no reading of the weights."""
    from doppler_core.manifest.load import manifest_json
    from doppler_core.weights.model_files import ModelFiles

    checkpoint = found.checkpoint
    identity = _fingerprint(checkpoint).hex()
    manifest = manifest_json(found.manifest)
    return ModelFiles(checkpoint.path, manifest, checkpoint.tensors, checkpoint.tokenizer_files, identity)


def _read(path: Path, settings: EngineSettings) -> "Checkpoint":
    from doppler_core.text.gguf_tokenizer import tokenizer_files
    from doppler_core.weights.checkpoint import read_checkpoint
    from doppler_core.weights.gguf_checkpoint import read_gguf

    if path.is_dir():
        return read_checkpoint(path)
    read = read_gguf(path)
    files = tokenizer_files(read.file.metadata, cache_dir(settings))
    return dataclasses.replace(read.checkpoint, tokenizer_files=files)


def cached_artifact(found: Resolvable, settings: EngineSettings, progress: Progress | None = None) -> Path:
    """The artifact of a checkpoint in the cache, made if it is not there; other processes wait for it."""
    return convert_checkpoint(found, settings, progress=progress).path


def convert_checkpoint(
    found: Resolvable,
    settings: EngineSettings,
    out: Path | None = None,
    *,
    replace: bool = False,
    progress: Progress | None = None,
) -> "Conversion":
    """Write the artifact to `out`, or to the cache, where one that is there is kept unless `replace`.

    Raises what `convert` does, and ManifestError or PlanError before anything is written where no plan can be made.
    """
    from doppler_core.engine.assembly import lower_model
    from doppler_core.manifest.load import manifest_json
    from doppler_core.weights.convert import convert
    from doppler_core.weights.model_files import ModelFiles

    existing: Existing = "replace" if replace else "keep" if out is None else "error"
    folder = cache_dir(settings) / _cache_name(found) if out is None else out
    data = manifest_json(found.manifest)

    def lower(tensors: "TensorTable") -> None:
        checkpoint = found.checkpoint
        files = ModelFiles(checkpoint.path, data, tensors, checkpoint.tokenizer_files, identity="")
        lower_model(files, found.manifest, model_type_of, EngineSettings(device="numpy"))

    return convert(found.checkpoint, data, folder, existing=existing, check=lower, progress=progress)


def _choose(checkpoint: "Checkpoint", settings: EngineSettings) -> tuple[dict[str, Any], str]:
    """The manifest as JSON data, unresolved, and where it is from: the argument, shipped, a template, a plugin."""
    from doppler_core.manifest import catalog
    from doppler_core.manifest.json_text import parse_object, read_text

    def read(path: Path) -> dict[str, Any]:
        return parse_object(read_text(path), str(path))

    architectures = _architectures(checkpoint)
    if settings.manifest is not None:
        path = _manifest_path(settings.manifest)
        return read(path), str(path)
    if checkpoint.source_id and (shipped := catalog.manifest_for(checkpoint.source_id, settings.precision)):
        return read(shipped), shipped.name
    if template := catalog.template_for(architectures):
        return _completed(read(template), checkpoint, settings), template.name
    model_type = plugins().model_type_for(architectures)
    if model_type is not None and callable(getattr(model_type, "template", None)):
        return _completed(dict(model_type.template()), checkpoint, settings), f"template of {model_type.name}"
    raise ModelNotFoundError(
        f"{checkpoint.path}: no manifest is shipped for {checkpoint.source_id or 'this checkpoint'} and no template "
        f"for its architectures {architectures}; give one with manifest=, or install a plugin that knows them "
        "(`doppler-plugins plugins` lists those that are installed)" + plugins().not_loaded()
    )


def _architectures(checkpoint: "Checkpoint") -> list[str]:
    found = checkpoint.config.get("architectures") or []
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise FileFormatError(f"{checkpoint.path}: config.json: architectures: expected a list of names")
    return found


def _completed(data: dict[str, Any], checkpoint: "Checkpoint", settings: EngineSettings) -> dict[str, Any]:
    """A template with what only the user or the checkpoint can say: the precision, the model's name, whether it chats."""
    quantization = dict(data["quantization"])
    if settings.precision == "f32":
        quantization |= dict.fromkeys(_ROLES, "f32")
        data = _with_kernel(data, "matmul_f16w_f32a.wgsl", "matmul_f32.wgsl")
    elif settings.precision is not None:
        quantization["weights"] = settings.precision
    elif checkpoint.path.is_file():
        quantization |= dict.fromkeys(_ROLES, None)  # a GGUF file's own types stand for them
    output = dict(data["output"])
    if output.get("modelBaseId") is None:
        output["modelBaseId"] = "-".join(filter(None, (_slug(checkpoint), quantization["weights"])))
    inference = dict(data["inference"])
    if _has_chat_template(checkpoint) and inference["chatTemplate"]["type"] is not None:
        inference["chatTemplate"] = {**inference["chatTemplate"], "enabled": True}
    return {**data, "quantization": quantization, "output": output, "inference": inference}


def _has_chat_template(checkpoint: "Checkpoint") -> bool:
    from doppler_core.weights.files import read_json_object

    files = checkpoint.tokenizer_files
    if any(name.startswith("chat_template") for name in files):
        return True
    return "tokenizer_config.json" in files and bool(
        read_json_object(files["tokenizer_config.json"]).get("chat_template")
    )


def _with_kernel(data: dict[str, Any], file: str, replacement: str) -> dict[str, Any]:
    """The manifest with one kernel file in place of another, which would round the weights."""
    from doppler_core.manifest.digest import kernel_digest

    kernels = {
        key: {**spec, "kernel": replacement, "digest": kernel_digest(replacement, spec["entry"])}
        if spec["kernel"] == file
        else spec
        for key, spec in data["execution"]["kernels"].items()
    }
    return {**data, "execution": {**data["execution"], "kernels": kernels}}


def _slug(checkpoint: "Checkpoint") -> str:
    path = checkpoint.path.absolute()
    name = checkpoint.source_id or (path.stem if path.is_file() else path.name)
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.") or "model"


def _cache_name(found: Resolvable) -> str:
    from doppler_core.manifest.load import manifest_json
    from doppler_core.weights.artifact_format import VERSION

    data = manifest_json(found.manifest)
    facts = {
        "format": VERSION,
        "quantization": data["quantization"],
        "output": data["output"].get("textOnly"),
    }
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    digest.update(_fingerprint(found.checkpoint))
    kept = data["quantization"]["weights"] or "as-is"
    return f"{_slug(found.checkpoint)}-{kept}-{digest.hexdigest()[:12]}"


def _fingerprint(checkpoint: "Checkpoint") -> bytes:
    """A hash of what the weights are, without reading them all: each tensor's header, its first and middle bytes.

    A fine-tune changes every value of the tensors it trains, so that two samples of each tell it from its base; the
    files' times tell an edit in place. Tokenizer files count whole: they are copied into the artifact.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(checkpoint.tensors.items()):
        middle = tensor.data.size // 2
        digest.update(json.dumps([name, tensor.shape, tensor.dtype]).encode())
        digest.update(tensor.data[:_SAMPLE_BYTES].tobytes())
        digest.update(tensor.data[middle : middle + _SAMPLE_BYTES].tobytes())
    for path in sorted({tensor.path for tensor in checkpoint.tensors.values()}):
        status = path.stat()
        digest.update(f"{status.st_size} {status.st_mtime_ns}".encode())
    for name, path in sorted(checkpoint.tokenizer_files.items()):
        digest.update(name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.digest()


def override_manifest(path: str, own: Mapping[str, Any]) -> "Manifest":
    """The manifest at `path`, or the shipped one of that name, for an artifact whose own is `own`, which fills the nulls: it knows the checkpoint's values."""
    from doppler_core.manifest.json_text import parse_object, read_text
    from doppler_core.manifest.load import load_manifest

    file = _manifest_path(path)
    data = parse_object(read_text(file), str(file))
    filled = {**{name: own[name] for name in ("modelType", "architecture", "text") if name in own}, **data}
    return load_manifest({name: _filled(value, own.get(name)) for name, value in filled.items()}, str(file))


def _manifest_path(named: str) -> Path:
    """The manifest that a setting names: a path, or the name of a shipped one."""
    from doppler_core.manifest import catalog

    path = expanded(named)
    is_path = os.path.lexists(path) or len(path.parts) != 1 or path.suffix == ".json"
    return path if is_path else catalog.shipped_manifest(str(named))


def _filled(value: Any, own: Any) -> Any:
    if value is None:
        return own
    if isinstance(value, dict) and isinstance(own, dict):
        return {name: _filled(child, own.get(name)) for name, child in value.items()}
    return value


def model_type_of(manifest: "Manifest") -> Any:
    """The model type that a resolved manifest names."""
    if manifest.model_type is None:
        raise ManifestError("modelType is null: expected the name of a model type in a resolved manifest")
    try:
        return plugins().model_type(manifest.model_type)
    except PluginError as error:
        raise PluginError(f"modelType {manifest.model_type!r} of the manifest: {error}") from error


def without_source(settings: EngineSettings) -> EngineSettings:
    """The settings less those that only say where a model comes from: what tells two engines of one artifact apart."""
    return dataclasses.replace(settings, precision=None, cache_dir=None, revision=None, offline=False)
