"""Safetensors files: a path in, named tensors out, memory-mapped, with every claim of the header checked.

Layout: 8 bytes little-endian header length N, N bytes of JSON {name: {dtype, shape, data_offsets}}, the data.
The format allows no gap and no overlap: in order of offsets, each tensor starts where the last one ended, and
the last ends with the file. Nothing larger than the header is allocated. It knows no model.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from doppler_core.errors import FileFormatError
from doppler_core.weights.files import (
    JSON_BYTES,
    inside,
    map_file,
    parse_json,
    read_json_object,
    regular_size,
)
from doppler_core.weights.table import TensorTable
from doppler_core.weights.tensor import StorageType, Tensor

INDEX_FILE = "model.safetensors.index.json"
SINGLE_FILE = "model.safetensors"

_READ: Mapping[str, StorageType] = {"F32": "f32", "F16": "f16", "BF16": "bf16"}
_BITS: Mapping[str, int] = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "U16": 16, "I16": 16, "F16": 16, "BF16": 16, "U32": 32, "I32": 32, "F32": 32, "U64": 64, "I64": 64, "F64": 64,
    "C64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip
_MAX_AXES = 8
_MAX_DIM = 1 << 48


@dataclass(frozen=True)
class _Entry:
    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


def read_safetensors(path: Path | str) -> TensorTable:
    """The F32, F16 and BF16 tensors of one file; the data are read when they are used.

    Tensors of another known type are checked too, but not readable: looking one up is the error, so a file
    that carries, say, an integer tensor no model asks for still opens. Raises FileFormatError.
    """
    path = Path(path)
    entries, data_start = _header(path)
    data = map_file(path)
    tensors: dict[str, Tensor] = {}
    unreadable: dict[str, str] = {}
    for entry in entries:
        if entry.dtype in _READ:
            part = data[data_start + entry.start : data_start + entry.stop]
            tensors[entry.name] = Tensor(entry.name, entry.shape, _READ[entry.dtype], part, path)
        else:
            unreadable[entry.name] = (
                f"{path}: tensor {entry.name!r} has dtype {entry.dtype}; expected F32, F16 or BF16"
            )
    return TensorTable(tensors, unreadable, path)


def read_sharded(folder: Path | str) -> TensorTable:
    """The tensors that `model.safetensors.index.json` lists, each read from the shard it names.

    What a shard holds beyond the index is not part of the checkpoint.
    """
    folder = Path(folder)
    index_path = folder / INDEX_FILE
    weight_map = read_json_object(index_path).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise FileFormatError(f"{index_path}: expected `weight_map`: an object from tensor to file name")
    shards: dict[Path, TensorTable] = {}
    tensors: dict[str, Tensor] = {}
    unreadable: dict[str, str] = {}
    for name, file in weight_map.items():
        shard_path = inside(folder, file, index_path)
        if shard_path not in shards:
            shards[shard_path] = read_safetensors(shard_path)
        shard = shards[shard_path]
        if name in shard:
            tensors[name] = shard[name]
        elif name in shard.unreadable:
            unreadable[name] = shard.unreadable[name]
        else:
            raise FileFormatError(f"{index_path}: tensor {name!r} should be in {file!r}, which lacks it")
    return TensorTable(tensors, unreadable, index_path)


def read_folder(folder: Path | str) -> TensorTable:
    """A checkpoint folder's tensors: sharded if it has an index, else its single file."""
    folder = Path(folder)
    if (folder / INDEX_FILE).exists():
        return read_sharded(folder)
    if (folder / SINGLE_FILE).exists():
        return read_safetensors(folder / SINGLE_FILE)
    raise FileFormatError(
        f"{folder}: expected {SINGLE_FILE} or {INDEX_FILE}; other weight formats (.bin, .pt) are not read: "
        "take the publisher's safetensors files"
    )


def _header(path: Path) -> tuple[list[_Entry], int]:
    """Checked entries in file order, and where the data start."""
    size = regular_size(path)
    if size < 8:
        raise FileFormatError(f"{path}: {size} bytes, too short for a safetensors header length of 8 bytes")
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > min(JSON_BYTES, size - 8):
            raise FileFormatError(
                f"{path}: header length {length}, but the file has {size - 8} bytes after it (and a header "
                f"at most {JSON_BYTES}); the file is truncated or no safetensors file"
            )
        text = file.read(length)
    if len(text) != length or not text.startswith(b"{"):
        raise FileFormatError(f"{path}: the header is no JSON object: not a safetensors file")
    header = parse_json(text, path)
    metadata = header.pop("__metadata__", None)
    if metadata is not None and not (
        isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values())
    ):
        raise FileFormatError(f"{path}: `__metadata__`: expected an object from string to string")
    entries = [_entry(path, name, record) for name, record in header.items()]
    _check_cover(path, entries, size - 8 - length)
    return entries, 8 + length


def _entry(path: Path, name: str, record: Any) -> _Entry:
    """One header record, its size checked against shape and dtype."""
    where = f"{path}: tensor {name[:200]!r}"
    if not isinstance(record, dict) or set(record) != {"dtype", "shape", "data_offsets"}:
        raise FileFormatError(f"{where}: expected an object with `dtype`, `shape` and `data_offsets`")
    dtype, shape, offsets = record["dtype"], record["shape"], record["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _BITS:
        raise FileFormatError(f"{where}: unknown dtype {str(dtype)[:50]!r}; expected one of {sorted(_BITS)}")
    if not isinstance(shape, list) or len(shape) > _MAX_AXES:
        raise FileFormatError(f"{where}: `shape`: expected a list of at most {_MAX_AXES} numbers")
    if not all(_is_count(dim, _MAX_DIM) for dim in shape):
        raise FileFormatError(f"{where}: shape {str(shape)[:200]} has a dimension that is no size")
    if 0 in shape:
        raise FileFormatError(f"{where}: shape {shape} has a zero dimension: an empty tensor is no weight")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(_is_count(o, 1 << 63) for o in offsets):
        raise FileFormatError(f"{where}: `data_offsets`: expected [start, stop], got {str(offsets)[:100]}")
    start, stop = offsets
    bits = math.prod(shape) * _BITS[dtype]
    if bits % 8 or stop - start != bits // 8:
        raise FileFormatError(
            f"{where}: {dtype} {shape} takes {bits / 8:g} bytes, but data_offsets [{start}, {stop}] give "
            f"{stop - start}"
        )
    return _Entry(name, dtype, tuple(shape), start, stop)


def _check_cover(path: Path, entries: list[_Entry], data_bytes: int) -> None:
    """The tensors fill the data exactly: no overlap, no gap, nothing past the end."""
    end, last = 0, "the header"
    for entry in sorted(entries, key=lambda entry: entry.start):
        if entry.start != end:
            fault = "overlaps" if entry.start < end else "leaves a gap after"
            raise FileFormatError(
                f"{path}: tensor {entry.name!r} starts at {entry.start} of the data and {fault} {last}, "
                f"which ends at {end}"
            )
        end, last = entry.stop, f"tensor {entry.name!r}"
    if end != data_bytes:
        raise FileFormatError(
            f"{path}: the header describes {end} bytes of data, the file has {data_bytes}: "
            + ("it is truncated" if end > data_bytes else "it has bytes that belong to no tensor")
        )


def _is_count(value: Any, limit: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < limit
