"""GGUF files: a path in, metadata and named tensors out, memory-mapped, with every claim of the file checked.

After the metadata come the tensors' descriptions (name, u32 number of sizes, u64 sizes with the row's first, u32 type,
u64 offset), padding to the alignment, and the data, in which each tensor starts where the one before it ended, padded.
Nothing larger than the descriptions is allocated. The names are the file's own; it knows no model.
"""

import math
from dataclasses import dataclass
from pathlib import Path

from doppler_core.errors import FileFormatError
from doppler_core.weights.files import map_file, regular_size
from doppler_core.weights.gguf_metadata import MAGIC, Metadata, Reader
from doppler_core.weights.gguf_types import READ_NAMES, TYPES, GgmlType
from doppler_core.weights.table import TensorTable
from doppler_core.weights.tensor import Bytes, Tensor

_MAX_AXES, _MAX_DIM = 4, 1 << 48
_SHORTEST = 24  # magic, version, two counts


@dataclass(frozen=True)
class GgufFile:
    """An open file. `head`: its bytes before the tensors' data."""

    path: Path
    metadata: Metadata
    tensors: TensorTable
    head: Bytes


@dataclass(frozen=True)
class _Entry:
    name: str
    shape: tuple[int, ...]
    type: GgmlType
    offset: int
    bytes: int


def is_gguf(path: Path) -> bool:
    """Whether a file is a GGUF file, by its name or by its first bytes."""
    if not path.is_file():
        return False
    if path.suffix.lower() == ".gguf":
        return True
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def open_gguf(path: Path | str) -> GgufFile:
    """Read a file's head; the data are read when they are used. Raises FileFormatError.

    Tensors of a known type that is not read are checked too: looking one up is the error.
    """
    path = Path(path)
    size = regular_size(path)
    if size < _SHORTEST:
        raise FileFormatError(f"{path}: {size} bytes, too short for a GGUF file")
    data = map_file(path)
    reader = Reader(data, path)
    count, pairs = reader.counts()
    metadata = reader.metadata(pairs)
    entries = _entries(reader, count)
    start = _aligned(reader.position, metadata.alignment)
    _check_cover(path, entries, metadata.alignment, size - start)
    tensors: dict[str, Tensor] = {}
    unreadable: dict[str, str] = {}
    for entry in entries:
        if entry.type.stored is None:
            unreadable[entry.name] = (
                f"{path}: tensor {entry.name!r} has type {entry.type.name}; expected one of {READ_NAMES}"
            )
        else:
            part = data[start + entry.offset : start + entry.offset + entry.bytes]
            tensors[entry.name] = Tensor(entry.name, entry.shape, entry.type.stored, part, path)
    return GgufFile(path, metadata, TensorTable(tensors, unreadable, path), data[: reader.position])


def _entries(reader: Reader, count: int) -> list[_Entry]:
    entries: dict[str, _Entry] = {}
    for index in range(count):
        entry = _entry(reader, index)
        if entry.name in entries:
            raise FileFormatError(f"{reader.path}: the tensor {entry.name[:200]!r} is described twice")
        entries[entry.name] = entry
    return list(entries.values())


def _entry(reader: Reader, index: int) -> _Entry:
    """One description, its numbers checked by themselves."""
    name = reader.text(f"the name of tensor {index}")
    where = f"{reader.path}: tensor {name[:200]!r}"
    axes = reader.u32()
    if not 1 <= axes <= _MAX_AXES:
        raise FileFormatError(f"{where}: {axes} sizes; expected 1 to {_MAX_AXES}")
    sizes = [reader.u64() for _ in range(axes)]
    code, offset = reader.u32(), reader.u64()
    shape = tuple(reversed(sizes))
    if not all(0 < size < _MAX_DIM for size in sizes):
        raise FileFormatError(f"{where}: the shape {list(shape)} has a size that is none")
    if code not in TYPES:
        raise FileFormatError(f"{where}: unknown type {code}; expected one of {READ_NAMES}")
    kind = TYPES[code]
    if sizes[0] % kind.block.values:
        raise FileFormatError(
            f"{where}: rows of {sizes[0]} values do not fill whole {kind.name} blocks of {kind.block.values}"
        )
    return _Entry(name, shape, kind, offset, math.prod(sizes) // kind.block.values * kind.block.bytes)


def _check_cover(path: Path, entries: list[_Entry], alignment: int, data_bytes: int) -> None:
    """The tensors fill the data: no overlap, no gap, nothing past the end."""
    end, last = 0, "the descriptions"
    for entry in sorted(entries, key=lambda entry: (entry.offset, entry.bytes)):
        expected = _aligned(end, alignment)
        if entry.offset != expected:
            fault = "overlaps" if entry.offset < end else "is not where it should be after"
            raise FileFormatError(
                f"{path}: tensor {entry.name[:200]!r} at {entry.offset} of the data {fault} {last}: expected it at "
                f"{expected}"
            )
        end, last = entry.offset + entry.bytes, f"tensor {entry.name[:200]!r}"
    if end > max(data_bytes, 0):
        raise FileFormatError(
            f"{path}: it describes {end} bytes of data and has {max(data_bytes, 0)}: it is truncated; download it again"
        )
    if data_bytes > _aligned(end, alignment):
        raise FileFormatError(f"{path}: {data_bytes - end} bytes at its end belong to no tensor")


def _aligned(position: int, alignment: int) -> int:
    return -(-position // alignment) * alignment
