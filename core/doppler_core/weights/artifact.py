"""Artifacts, the folders `convert` writes: a folder in, its manifest (raw JSON) and memory-mapped tensors out.

Opening always checks the table, the sizes and the structure; the hashes when files changed since their last check.
It knows no manifest field: what manifest.json says is for others to read.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from doppler_core.errors import FileFormatError, ModelNotFoundError
from doppler_core.settings import Progress
from doppler_core.weights.artifact_format import ARTIFACT_FILE, MANIFEST_FILE, ArtifactInfo, read_info
from doppler_core.weights.checkpoint import TOKENIZER_FILES
from doppler_core.weights.files import map_file, read_json_object, reading
from doppler_core.weights.integrity import check_hashes, check_hashes_if_changed, check_sizes
from doppler_core.weights.model_files import ModelFiles
from doppler_core.weights.staging import is_staging
from doppler_core.weights.table import TensorTable
from doppler_core.weights.tensor import Tensor


@dataclass(frozen=True)
class Artifact(ModelFiles):
    """An open artifact; its identity is a hash over the table with its hashes, and the manifest."""

    info: ArtifactInfo


@reading()
def open_artifact(folder: Path | str, progress: Progress | None = None) -> Artifact:
    """Open an artifact; the weights stay on disk until they are used.

    Raises ModelNotFoundError where there is none, FileFormatError where a file is malformed, missing or of the wrong
    size, IntegrityError where a file is not what was hashed.
    """
    folder, info = _checked(folder)
    check_hashes_if_changed(folder, info, progress)
    manifest = read_json_object(folder / MANIFEST_FILE)
    shards = [map_file(folder / shard.file) for shard in info.shards]
    tensors = {
        name: Tensor(
            name,
            tensor.shape,
            tensor.dtype,
            shards[tensor.shard][tensor.offset : tensor.offset + tensor.bytes],
            folder / info.shards[tensor.shard].file,
        )
        for name, tensor in info.tensors.items()
    }
    files = {file.file: folder / file.file for file in info.files if file.file in TOKENIZER_FILES}
    digest = hashlib.sha256()
    for name in (ARTIFACT_FILE, MANIFEST_FILE):
        digest.update(hashlib.sha256((folder / name).read_bytes()).digest())
    table = TensorTable(tensors, {}, folder / ARTIFACT_FILE)
    return Artifact(folder, manifest, table, files, digest.hexdigest(), info)


@reading()
def verify(folder: Path | str, progress: Progress | None = None) -> ArtifactInfo:
    """Check everything `open_artifact` checks, and every hash, whatever was checked before."""
    folder, info = _checked(folder)
    check_hashes(folder, info, progress)
    read_json_object(folder / MANIFEST_FILE)
    return info


def _checked(folder: Path | str) -> tuple[Path, ArtifactInfo]:
    folder = Path(folder)
    if not (folder / ARTIFACT_FILE).is_file():
        raise ModelNotFoundError(f"{folder}: expected a converted model, but it has no {ARTIFACT_FILE}")
    if is_staging(folder.absolute().parent):
        raise FileFormatError(f"{folder}: the leftover of a conversion that did not finish; convert again")
    info = read_info(folder)
    check_sizes(folder, info)
    return folder, info
