"""`convert`: a checkpoint and its resolved manifest in, an artifact folder out.

Streams: a few blocks of rows are in memory at a time, whatever the model's size. Atomic: the folder appears whole or
not at all. Deterministic: equal input gives equal bytes. It reads only `quantization` and `output.textOnly` of the
manifest, which others made and checked.
"""

import hashlib
import json
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import numpy as np

from doppler_core.errors import (
    DiskSpaceError,
    FileFormatError,
    QuantizationError,
    SettingsError,
)
from doppler_core.settings import Progress
from doppler_core.weights.artifact_format import (
    ARTIFACT_FILE,
    MANIFEST_FILE,
    ArtifactInfo,
    FileInfo,
    aligned,
    read_info,
    to_json,
)
from doppler_core.weights.checkpoint import Checkpoint
from doppler_core.weights.policy import selected, storage_types
from doppler_core.weights.shards import SHARD_BYTES, ShardWriter
from doppler_core.weights.staging import staged, writing
from doppler_core.weights.storage import store, to_f32
from doppler_core.weights.table import TensorTable
from doppler_core.weights.tensor import BLOCKS, Bytes, StorageType, Tensor, tensor_bytes

Existing = Literal["error", "keep", "replace"]

# Values of one task: 4 MiB as float32, so all tasks in flight stay within tens of megabytes.
_TASK_VALUES = 1 << 20
_COPY_BYTES = 4 << 20
_WORKERS = min(8, os.cpu_count() or 1)
# artifact.json has about 250 bytes per tensor; file systems round up.
_TABLE_BYTES = 1 << 20
_NO_BYTES: Bytes = np.empty(0, np.uint8)


@dataclass(frozen=True)
class Conversion:
    """What `convert` did.

    kept: True where an artifact was there already and existing="keep".
    skipped: tensors of the checkpoint in types that are not weights (integers, for one), not in the artifact.
    """

    path: Path
    info: ArtifactInfo
    kept: bool
    skipped: tuple[str, ...]


def convert(
    checkpoint: Checkpoint,
    manifest: Mapping[str, Any],
    out: Path | str,
    *,
    existing: Existing = "error",
    shard_bytes: int = SHARD_BYTES,
    check: Callable[[TensorTable], object] | None = None,
    progress: Progress | None = None,
) -> Conversion:
    """Write the artifact `out` from a checkpoint and its resolved manifest (plain JSON values).

    existing: what to do where `out` is an artifact already; any other folder with files in it is never touched.
    check: called before anything is written, with the tensors as they will be stored; only scalars have their bytes.
    progress("converting", values done, values in all).

    Raises SettingsError (out is taken), DiskSpaceError (before anything is written), QuantizationError (tensor and
    position of a value that can't be stored), FileFormatError, ManifestError. After an error nothing is left behind.
    """
    out = Path(out)
    report = progress or (lambda stage, done, total: None)
    skipped = tuple(checkpoint.tensors.unreadable)
    if existing == "keep" and (out / ARTIFACT_FILE).is_file():
        # It appeared whole, so no lock is needed, and none could be had in a cache that is read-only.
        return Conversion(out, read_info(out), True, skipped)
    if "tokenizer.json" not in checkpoint.tokenizer_files:
        raise FileFormatError(
            f"{checkpoint.path}: tokenizer.json is missing; download the publisher's folder whole"
        )
    text_only = (manifest.get("output") or {}).get("textOnly") is True
    tensors = selected(checkpoint.tensors, text_only)
    types = storage_types(manifest.get("quantization") or {}, tensors)
    if check is not None:
        table = checkpoint.tensors
        headers = {name: _header(tensor, types[name]) for name, tensor in tensors.items()}
        check(TensorTable(headers, table.unreadable, table.path))

    def waiting() -> None:
        report("waiting for another conversion", 0, 1)

    with (
        writing(out, "the converted model"),
        staged(out, lambda: _may_write(out, existing), waiting) as folder,
    ):
        if folder is None:
            return Conversion(out, read_info(out), True, skipped)
        _check_space(folder, checkpoint, tensors, types)
        info = _write(folder, checkpoint, manifest, tensors, types, shard_bytes, report)
    return Conversion(out, info, False, skipped)


def _may_write(out: Path, existing: Existing) -> bool:
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return True
    if not (out / ARTIFACT_FILE).is_file():
        raise SettingsError(f"{out}: exists and is no artifact; give a folder that is new or empty")
    if existing == "error":
        raise SettingsError(
            f"{out}: there is an artifact already; give another folder, or replace it (--force)"
        )
    return existing == "replace"


def _check_space(
    folder: Path, checkpoint: Checkpoint, tensors: Mapping[str, Tensor], types: Mapping[str, StorageType]
) -> None:
    need = sum(aligned(tensor_bytes(types[name], tensor.shape)) for name, tensor in tensors.items())
    need += sum(path.stat().st_size for path in checkpoint.tokenizer_files.values()) + _TABLE_BYTES
    free = shutil.disk_usage(folder).free
    if free < need:
        raise DiskSpaceError(
            f"{folder.parent.parent}: the converted model needs {need / 1e6:.1f} MB, but {free / 1e6:.1f} MB are "
            "free; make room, or give a folder on another disk"
        )


def _write(
    folder: Path,
    checkpoint: Checkpoint,
    manifest: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    types: Mapping[str, StorageType],
    shard_bytes: int,
    report: Progress,
) -> ArtifactInfo:
    done, total = 0, sum(tensor.rows * tensor.columns for tensor in tensors.values())
    # Leaving the pool waits for the few blocks in flight, also after an error: no thread outlives the call.
    with ThreadPoolExecutor(_WORKERS, "doppler-convert") as pool, ShardWriter(folder, shard_bytes) as writer:
        for name, tensor in tensors.items():
            writer.add(name, types[name], tensor.shape, _encoded(tensor, types[name], pool))
            done += tensor.rows * tensor.columns
            report("converting", done, total)
    files = tuple(_copied(name, path, folder) for name, path in sorted(checkpoint.tokenizer_files.items()))
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    (folder / MANIFEST_FILE).write_text(text, encoding="utf-8", newline="\n")
    info = ArtifactInfo(_version(), checkpoint.source_id, tuple(writer.shards), files, writer.tensors)
    (folder / ARTIFACT_FILE).write_text(to_json(info), encoding="utf-8", newline="\n")
    return info


def _encoded(tensor: Tensor, dtype: StorageType, pool: ThreadPoolExecutor) -> Iterator[Bytes]:
    """The tensor's bytes in order, a few blocks of rows ahead of whoever takes them."""

    step = max(1, _TASK_VALUES // tensor.columns)
    ahead: deque[Future[Bytes]] = deque()
    try:
        for start in range(0, tensor.rows, step):
            ahead.append(pool.submit(_rows, tensor, dtype, start, min(start + step, tensor.rows)))
            if len(ahead) > 2 * _WORKERS:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:
        for future in ahead:
            future.cancel()


def _rows(tensor: Tensor, dtype: StorageType, start: int, stop: int) -> Bytes:
    """Some rows as they are stored."""
    try:
        # Blocks that are packed already are the publisher's: packing their values again would change them.
        if tensor.dtype == dtype and BLOCKS[dtype].values > 1:
            return tensor.row_data(start, stop)
        return store(to_f32(tensor, start, stop), dtype, tensor.name, start)
    except QuantizationError as error:
        raise QuantizationError(f"{tensor.path}: {error}") from error


def _header(tensor: Tensor, dtype: StorageType) -> Tensor:
    """A tensor as it will be stored, of which a plan needs no values but a scalar's."""
    is_scalar = tensor.rows * tensor.columns == 1
    data = _rows(tensor, dtype, 0, 1).reshape(-1) if is_scalar else _NO_BYTES
    return replace(tensor, dtype=dtype, data=data)


def _copied(name: str, source: Path, folder: Path) -> FileInfo:
    digest, size = hashlib.sha256(), 0
    with source.open("rb") as read, (folder / name).open("wb") as write:
        while chunk := read.read(_COPY_BYTES):
            write.write(chunk)
            digest.update(chunk)
            size += len(chunk)
    return FileInfo(name, size, digest.hexdigest())


def _version() -> str:
    try:
        return version("doppler-plugins")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "unknown"
