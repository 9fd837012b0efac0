"""Weights as the NumPy executor holds them: expanded to f32 once, or packed and expanded a block of rows at a time."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from doppler_core.plan.operands import Array
from doppler_core.weights.storage import gather_f32, to_f32
from doppler_core.weights.tensor import Tensor

BLOCK_BYTES = 8 << 20  # an expanded block stays in the cache of the core that multiplies by it


@dataclass(frozen=True)
class Expanded:
    """All values in memory as f32, [rows, columns]."""

    values: Array

    def blocks(self) -> Iterator[tuple[int, int, Array]]:
        """The whole as one block: first row, end, values."""
        yield 0, len(self.values), self.values


@dataclass(frozen=True)
class Packed:
    """The bytes as the file has them, a memory map; values exist only while they are used."""

    tensor: Tensor

    def blocks(self) -> Iterator[tuple[int, int, Array]]:
        """Blocks of rows, expanded one after the other."""
        step = max(1, BLOCK_BYTES // (4 * self.tensor.columns))
        for start in range(0, self.tensor.rows, step):
            stop = min(start + step, self.tensor.rows)
            yield start, stop, to_f32(self.tensor, start, stop)

    def rows(self, ids: npt.NDArray[np.uint32]) -> Array:
        """The rows of `ids`, [ids, columns]."""
        return gather_f32(self.tensor, ids)


NumpyWeight = Expanded | Packed
