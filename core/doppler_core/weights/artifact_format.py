"""artifact.json, the table of an artifact: its JSON to a checked value and back. It opens no shard.

    {"format": "doppler-plugins artifact", "version": 1, "converter": "0.1.0", "sourceCheckpointId": "org/name",
     "shards": [{"file", "bytes", "sha256"}], "files": [the same, for the tokenizer's],
     "tensors": {name: {"dtype", "shape", "shard", "offset", "bytes"}}}

manifest.json beside it carries no hash: `pin` may change it, and it is checked whenever it is read.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from doppler_core.errors import FileFormatError
from doppler_core.weights.files import field, inside, read_json_object
from doppler_core.weights.tensor import STORED, StorageType, tensor_bytes

ARTIFACT_FILE = "artifact.json"
MANIFEST_FILE = "manifest.json"
FORMAT = "doppler-plugins artifact"
VERSION = 1
ALIGNMENT = 256

_SHA256 = re.compile(r"[0-9a-f]{64}")
_MAX_AXES, _MAX_DIM = 8, 1 << 48


@dataclass(frozen=True)
class FileInfo:
    """A file of the artifact: its name, size and hash."""

    file: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class TensorInfo:
    """Where a tensor lies: the index of its shard, and the offset and size in bytes."""

    dtype: StorageType
    shape: tuple[int, ...]
    shard: int
    offset: int
    bytes: int


@dataclass(frozen=True)
class ArtifactInfo:
    """What artifact.json says."""

    converter: str
    source_checkpoint_id: str | None
    shards: tuple[FileInfo, ...]
    files: tuple[FileInfo, ...]
    tensors: Mapping[str, TensorInfo]

    @property
    def hashed(self) -> tuple[FileInfo, ...]:
        """All files that carry a hash."""
        return self.shards + self.files


def aligned(size: int) -> int:
    """The next multiple of the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def to_json(info: ArtifactInfo) -> str:
    """The text of artifact.json; equal values give equal text."""
    value = {
        "format": FORMAT,
        "version": VERSION,
        "converter": info.converter,
        "sourceCheckpointId": info.source_checkpoint_id,
        "shards": [vars(shard) for shard in info.shards],
        "files": [vars(file) for file in info.files],
        "tensors": {name: vars(tensor) for name, tensor in info.tensors.items()},
    }
    return json.dumps(value, indent=1) + "\n"


def read_info(folder: Path) -> ArtifactInfo:
    """artifact.json of a folder, every claim checked that needs no other file. Raises FileFormatError."""
    path = folder / ARTIFACT_FILE
    record = read_json_object(path)
    if record.get("format") != FORMAT:
        raise FileFormatError(
            f"{path}: expected `format` {FORMAT!r}, got {str(record.get('format'))[:100]!r}"
        )
    version = field(record, "version", int, path, "artifact")
    if version != VERSION:
        raise FileFormatError(
            f"{path}: format version {version}, but this release reads version {VERSION}; convert the checkpoint "
            "again, or use the release that wrote it"
        )
    source = record.get("sourceCheckpointId")
    if source is not None and not isinstance(source, str):
        raise FileFormatError(f"{path}: `sourceCheckpointId`: expected text or null, got {str(source)[:100]}")
    shards, files = (
        tuple(_file(entry, f"{name} {index}", path, folder) for index, entry in enumerate(entries))
        for name, entries in (
            (name, field(record, name, list, path, "artifact")) for name in ("shards", "files")
        )
    )
    tensors = {
        name: _tensor(entry, f"tensor {name[:200]!r}", path, shards)
        for name, entry in field(record, "tensors", dict, path, "artifact").items()
    }
    info = ArtifactInfo(field(record, "converter", str, path, "artifact"), source, shards, files, tensors)
    names = [file.file for file in info.hashed]
    if len(set(names)) != len(names) or {ARTIFACT_FILE, MANIFEST_FILE} & set(names):
        raise FileFormatError(f"{path}: a file is listed twice: {', '.join(names)[:500]}")
    _check_cover(info, path)
    return info


def _file(entry: Any, where: str, path: Path, folder: Path) -> FileInfo:
    if not isinstance(entry, dict):
        raise FileFormatError(f"{path}: {where}: expected an object")
    name = field(entry, "file", str, path, where)
    inside(folder, name, path)
    digest = field(entry, "sha256", str, path, where)
    if not _SHA256.fullmatch(digest):
        raise FileFormatError(
            f"{path}: {where}: `sha256`: expected 64 hexadecimal digits, got {digest[:80]!r}"
        )
    return FileInfo(name, _count(entry, "bytes", path, where), digest)


def _tensor(entry: Any, where: str, path: Path, shards: tuple[FileInfo, ...]) -> TensorInfo:
    if not isinstance(entry, dict):
        raise FileFormatError(f"{path}: {where}: expected an object")
    dtype = field(entry, "dtype", str, path, where)
    if dtype not in STORED:
        raise FileFormatError(f"{path}: {where}: dtype {dtype[:50]!r}; expected one of {sorted(STORED)}")
    shape = field(entry, "shape", list, path, where)
    if len(shape) > _MAX_AXES or not all(type(dim) is int and 0 < dim < _MAX_DIM for dim in shape):
        raise FileFormatError(f"{path}: {where}: `shape`: expected positive sizes, got {str(shape)[:100]}")
    shard, offset, size = (_count(entry, name, path, where) for name in ("shard", "offset", "bytes"))
    wanted = tensor_bytes(dtype, tuple(shape))
    if size != wanted:
        raise FileFormatError(f"{path}: {where}: {dtype} {shape} takes {wanted} bytes, but `bytes` is {size}")
    if shard >= len(shards):
        raise FileFormatError(f"{path}: {where}: `shard` is {shard}, but there are {len(shards)}")
    if offset % ALIGNMENT or offset + size > shards[shard].bytes:
        raise FileFormatError(
            f"{path}: {where}: {size} bytes at offset {offset} do not fit {shards[shard].file} of "
            f"{shards[shard].bytes} bytes, or are not aligned to {ALIGNMENT}"
        )
    return TensorInfo(dtype, tuple(shape), shard, offset, size)


def _check_cover(info: ArtifactInfo, path: Path) -> None:
    """The tensors fill their shards as the converter laid them: no overlap, no gap, no byte that belongs to none."""
    ends = [0] * len(info.shards)
    ordered = sorted(info.tensors.items(), key=lambda item: (item[1].shard, item[1].offset))
    for name, tensor in ordered:
        following = aligned(ends[tensor.shard])
        if tensor.offset != following:
            fault = "overlaps the tensor before it" if tensor.offset < following else "leaves a gap before it"
            raise FileFormatError(
                f"{path}: tensor {name[:200]!r} at offset {tensor.offset} of {info.shards[tensor.shard].file} {fault}: "
                f"expected it at {following}"
            )
        ends[tensor.shard] = tensor.offset + tensor.bytes
    for end, shard in zip(ends, info.shards, strict=True):
        if end != shard.bytes:
            raise FileFormatError(
                f"{path}: {shard.file} has {shard.bytes} bytes, but its tensors end at {end}: the table is not of "
                "this file; convert the checkpoint again"
            )


def _count(entry: Mapping[str, Any], name: str, path: Path, where: str) -> int:
    value: int = field(entry, name, int, path, where)
    if value < 0:
        raise FileFormatError(f"{path}: {where}: `{name}`: expected a size, got {value}")
    return value
