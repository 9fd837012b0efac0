"""A tensor as it lies in a file: its name, shape, storage type and bytes. It knows no model and no file format."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

StorageType = Literal["f32", "f16", "bf16", "q8_0", "q4_0", "q5_0", "q4_k", "q5_k", "q6_k", "q8_0x8"]
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class BlockFormat:
    """How a storage type lays out one row: `values` of them take `bytes`, and a row fills whole blocks.

    rows: how many lie together, block by block; 1 in every file.
    """

    values: int
    bytes: int
    rows: int = 1


BLOCKS: Mapping[StorageType, BlockFormat] = {
    "f32": BlockFormat(1, 4),
    "f16": BlockFormat(1, 2),
    "bf16": BlockFormat(1, 2),
    "q8_0": BlockFormat(32, 34),
    "q4_0": BlockFormat(32, 18),
    "q5_0": BlockFormat(32, 22),
    "q4_k": BlockFormat(256, 144),
    "q5_k": BlockFormat(256, 176),
    "q6_k": BlockFormat(256, 210),
    "q8_0x8": BlockFormat(32, 34, rows=8),
}
#: The types that a file may hold; the others are made for kernels when a weight is loaded.
STORED: tuple[StorageType, ...] = tuple(dtype for dtype, block in BLOCKS.items() if block.rows == 1)
#: A stored type with its rows laid together.
TOGETHER: Mapping[StorageType, StorageType] = {"q8_0": "q8_0x8"}
#: The types this project stores values in; the others it only reads.
WRITTEN: tuple[StorageType, ...] = ("f32", "f16", "bf16", "q8_0", "q4_k")


def row_bytes(dtype: StorageType, columns: int) -> int:
    """Bytes of one row of `columns` values; the last block of a row is padded with zeros."""
    block = BLOCKS[dtype]
    return -(-columns // block.values) * block.bytes


def tensor_bytes(dtype: StorageType, shape: tuple[int, ...]) -> int:
    """Bytes of a tensor whose last axis is the row; where rows lie together, the last ones are made up by zeros."""
    if not shape:
        return row_bytes(dtype, 1)
    together = BLOCKS[dtype].rows
    return -(-math.prod(shape[:-1]) // together) * together * row_bytes(dtype, shape[-1])


@dataclass(frozen=True)
class Tensor:
    """One tensor of a checkpoint or an artifact.

    `data` is a flat view of the file (usually a memory map), `row_bytes` per row of the last axis.
    """

    name: str
    shape: tuple[int, ...]
    dtype: StorageType
    data: Bytes
    path: Path

    @property
    def rows(self) -> int:
        """Rows: the product of all axes but the last."""
        return math.prod(self.shape[:-1])

    @property
    def columns(self) -> int:
        """Values of a row: the last axis (1 for a scalar)."""
        return self.shape[-1] if self.shape else 1

    def row_data(self, start: int, stop: int) -> Bytes:
        """The bytes of rows `start` to `stop`, shape [stop - start, row_bytes]."""
        size = row_bytes(self.dtype, self.columns)
        return self.data[start * size : stop * size].reshape(stop - start, size)
