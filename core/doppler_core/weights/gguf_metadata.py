"""The metadata of a GGUF file: its first bytes in, typed values by key out, every length checked before it is followed.

Layout, all little-endian: "GGUF", u32 version, u64 number of tensors, u64 number of pairs, the pairs. A pair is a text
(u64 length, UTF-8), a u32 type and a value; an array is a u32 type, a u64 count and the elements. Arrays stay in the
file until somebody asks for them: a vocabulary is a quarter of a million texts. It knows no key but general.alignment.
"""

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from doppler_core.errors import FileFormatError
from doppler_core.weights.tensor import Bytes

MAGIC = b"GGUF"

_VERSIONS = (2, 3)
_ALIGNMENT, _MAX_ALIGNMENT = 32, 1 << 20
# The bounds are some way above what real models have, and keep what a hostile file costs below a second and 50 MB.
_MAX_ENTRIES = 1 << 16
_TEXT_BYTES = 16 << 20  # keys, names and single texts together
_ARRAY_TEXTS = 1 << 20  # texts in arrays together
_ARRAY_BYTES = 64 << 20  # of one array of texts
_SMALLEST_PAIR, _SMALLEST_TENSOR = 8 + 4 + 1, 8 + 4 + 4 + 8

_BOOL, _TEXT, _ARRAY = 7, 8, 9
_NUMBERS: Mapping[int, np.dtype[Any]] = {
    code: np.dtype(name)
    for code, name in {
        0: "u1", 1: "i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", _BOOL: "?", 10: "<u8", 11: "<i8", 12: "<f8"
    }.items()
}  # fmt: skip
_LENGTH = struct.Struct("<Q")
_Kind = TypeVar("_Kind")


@dataclass(frozen=True)
class Texts:
    """An array of texts as it lies in the file; `where` is the file and key, for messages."""

    data: memoryview
    count: int
    where: str

    def __len__(self) -> int:
        return self.count

    def decoded(self) -> list[str]:
        """All texts; FileFormatError where one is not UTF-8."""
        data, position, found = bytes(self.data), 0, []
        try:
            for _ in range(self.count):
                start = position + 8
                position = start + _LENGTH.unpack_from(data, position)[0]
                found.append(data[start:position].decode())
        except UnicodeDecodeError as error:
            raise FileFormatError(
                f"{self.where}: text {len(found)} of the array is not UTF-8 ({error})"
            ) from None
        return found


@dataclass(frozen=True)
class Metadata:
    """The pairs of a file. Values: int, float, bool, str, an array of numbers (a view), or Texts."""

    path: Path
    values: Mapping[str, Any]
    raw: Mapping[str, memoryview]

    def get(self, key: str, kind: type[_Kind]) -> _Kind | None:
        """The value of a key, None where there is none; FileFormatError where it is of another type.

        kind: int, float (takes an int), bool, str, np.ndarray or Texts. A float32 is given as the shortest decimal
        that stands for it: 1e-06, as its publisher wrote it.
        """
        value = self.values.get(key)
        if value is None:
            return None
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise FileFormatError(
                f"{self.path}: {key}: expected {kind.__name__}, found {type(value).__name__} {str(value)[:100]}"
            )
        return value

    def need(self, key: str, kind: type[_Kind]) -> _Kind:
        """`get` of a key that must be there."""
        value = self.get(key, kind)
        if value is None:
            raise FileFormatError(f"{self.path}: the metadata lack {key}, which this architecture needs")
        return value

    def digest(self, *prefixes: str) -> str:
        """A hash of all pairs whose key begins with one of `prefixes`."""
        digest = hashlib.sha256()
        for key in sorted(key for key in self.raw if key.startswith(prefixes)):
            digest.update(f"{len(key)} {key} {self.raw[key].nbytes} ".encode())
            digest.update(self.raw[key])
        return digest.hexdigest()

    @property
    def alignment(self) -> int:
        """What the places of tensors are multiples of; FileFormatError where it is no power of two."""
        alignment = self.get("general.alignment", int)
        alignment = _ALIGNMENT if alignment is None else alignment
        if not 0 < alignment <= _MAX_ALIGNMENT or alignment & (alignment - 1):
            raise FileFormatError(
                f"{self.path}: general.alignment: expected a power of two up to {_MAX_ALIGNMENT}, found {alignment}"
            )
        return alignment


class Reader:
    """A place in a file's bytes that moves forward as values are taken."""

    def __init__(self, data: Bytes, path: Path) -> None:
        self.path = path
        self.position = 0
        self._data = data.data
        self._text_bytes, self._array_texts = _TEXT_BYTES, _ARRAY_TEXTS

    def number(self, code: int) -> int | float | bool:
        """One number of a type of _NUMBERS."""
        dtype = _NUMBERS[code]
        value = np.frombuffer(self._take(dtype.itemsize), "u1" if code == _BOOL else dtype)[0]
        if code == _BOOL:
            if value > 1:
                raise FileFormatError(f"{self.path}: byte {self.position - 1}: a bool of {value}")
            return bool(value)
        if not np.isfinite(value):
            raise FileFormatError(
                f"{self.path}: byte {self.position - dtype.itemsize}: a number that is {value}"
            )
        return float(str(value)) if dtype.kind == "f" else int(value)

    def u32(self) -> int:
        """A u32."""
        return int.from_bytes(self._take(4), "little")

    def u64(self) -> int:
        """A u64."""
        return int.from_bytes(self._take(8), "little")

    def text(self, what: str) -> str:
        """A text; `what` it is, for messages."""
        size = self.u64()
        if size > self._text_bytes:
            raise FileFormatError(
                f"{self.path}: {what} at byte {self.position} takes {size} bytes; {_TEXT_BYTES} are read in all"
            )
        self._text_bytes -= size
        try:
            return str(self._take(size), "utf-8")
        except UnicodeDecodeError as error:
            raise FileFormatError(
                f"{self.path}: {what} at byte {self.position - size} is not UTF-8 ({error})"
            ) from None

    def counts(self) -> tuple[int, int]:
        """The file's head: the numbers of tensors and of pairs."""
        if bytes(self._data[:4]) != MAGIC:
            raise FileFormatError(
                f"{self.path}: expected a GGUF file, and it begins with {bytes(self._data[:4])!r}"
            )
        self._take(4)
        version = self.u32()
        if version not in _VERSIONS:
            swapped = int.from_bytes(version.to_bytes(4, "little"), "big") in _VERSIONS
            fault = "a big-endian file" if swapped else f"version {version}"
            raise FileFormatError(
                f"{self.path}: {fault} of GGUF; expected little-endian and version {' or '.join(map(str, _VERSIONS))}: "
                "convert the checkpoint again with a current llama.cpp"
            )
        tensors, pairs = self.u64(), self.u64()
        left = len(self._data) - self.position
        for count, name, smallest in (
            (tensors, "tensors", _SMALLEST_TENSOR),
            (pairs, "metadata pairs", _SMALLEST_PAIR),
        ):
            if count > min(_MAX_ENTRIES, left // smallest):
                raise FileFormatError(
                    f"{self.path}: {count} {name} can't be in a file of {len(self._data)} bytes (and at most "
                    f"{_MAX_ENTRIES} are read)"
                )
        return tensors, pairs

    def metadata(self, pairs: int) -> Metadata:
        """The pairs that come next."""
        values: dict[str, Any] = {}
        raw: dict[str, memoryview] = {}
        for index in range(pairs):
            key = self.text(f"key {index}")
            if key in values:
                raise FileFormatError(f"{self.path}: the key {key[:200]!r} occurs twice")
            start = self.position
            values[key] = self._value(f"{self.path}: {key[:200]}")
            raw[key] = self._data[start : self.position]
        return Metadata(self.path, values, raw)

    def _value(self, where: str) -> Any:
        code = self.u32()
        if code == _TEXT:
            return self.text(where)
        if code in _NUMBERS:
            return self.number(code)
        if code != _ARRAY:
            raise FileFormatError(f"{where}: unknown type {code}; expected 0 to 12")
        code, count = self.u32(), self.u64()
        if code == _TEXT:
            return self._texts(count, where)
        if code not in _NUMBERS:
            kind = "arrays in an array" if code == _ARRAY else f"an array of unknown type {code}"
            raise FileFormatError(f"{where}: {kind}; expected an array of numbers or texts")
        dtype = _NUMBERS[code]
        return np.frombuffer(self._take(count * dtype.itemsize), dtype)

    def _texts(self, count: int, where: str) -> Texts:
        if count > self._array_texts:
            raise FileFormatError(f"{where}: {count} texts; {_ARRAY_TEXTS} are read in all arrays together")
        self._array_texts -= count
        data, start, position = self._data, self.position, self.position
        length = _LENGTH.unpack_from
        try:
            for _ in range(count):
                position += 8 + length(data, position)[0]
        except (struct.error, OverflowError):
            position = len(data) + 1
        if position - start > _ARRAY_BYTES:
            raise FileFormatError(f"{where}: an array of texts of over {_ARRAY_BYTES} bytes, or cut off")
        return Texts(self._take(position - start), count, where)

    def _take(self, size: int) -> memoryview:
        end = self.position + size
        if end > len(self._data):
            raise FileFormatError(
                f"{self.path}: {size} bytes are needed at byte {self.position}, and the file has {len(self._data)}: it is "
                "truncated or damaged; download it again"
            )
        part = self._data[self.position : end]
        self.position = end
        return part
