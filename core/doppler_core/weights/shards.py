"""Shards of an artifact: tensors as blocks of bytes in, weights-NNNNN.bin files with their table out.

A tensor never spans shards; a shard closes at 1 GiB or is one larger tensor; tensors are 256-byte aligned. Every
byte is hashed as it is written. It knows no tensor's meaning.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from doppler_core.weights.artifact_format import FileInfo, TensorInfo, aligned
from doppler_core.weights.tensor import Bytes, StorageType, tensor_bytes

SHARD_BYTES = 1 << 30


class ShardWriter:
    """Writes tensors one after the other into the shards of a folder; a context manager that closes the last."""

    def __init__(self, folder: Path, shard_bytes: int = SHARD_BYTES) -> None:
        self.tensors: dict[str, TensorInfo] = {}
        self.shards: list[FileInfo] = []
        self._folder = folder
        self._limit = shard_bytes
        self._file: BinaryIO | None = None
        self._digest = hashlib.sha256()
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def add(self, name: str, dtype: StorageType, shape: tuple[int, ...], blocks: Iterable[Bytes]) -> None:
        """Write one tensor; its blocks together are exactly its bytes."""
        size = tensor_bytes(dtype, shape)
        if self._size and aligned(self._size) + size > self._limit:
            self._close()
        self._write(bytes(aligned(self._size) - self._size))
        info = TensorInfo(dtype, shape, len(self.shards), self._size, size)
        for block in blocks:
            self._write(block.data)
        if self._size - info.offset != size:
            raise ValueError(f"{name}: blocks of {self._size - info.offset} bytes for a tensor of {size}")
        self.tensors[name] = info

    def _write(self, data: bytes | memoryview) -> None:
        if self._file is None:
            self._file = (self._folder / self._name).open("wb")
        self._file.write(data)
        self._digest.update(data)
        self._size += len(data) if isinstance(data, bytes) else data.nbytes

    def _close(self) -> None:
        if self._file is None:
            return
        self._file.close()
        self.shards.append(FileInfo(self._name, self._size, self._digest.hexdigest()))
        self._file, self._digest, self._size = None, hashlib.sha256(), 0

    @property
    def _name(self) -> str:
        return f"weights-{len(self.shards) + 1:05}.bin"
