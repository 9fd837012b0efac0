"""Weights as the NumPy executor holds them: expanded to f32 once, or packed and expanded a block of rows at a time.

The rows of a weight are those of all its axes but the last, an expert's behind those of the one before it.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from doppler_core.device.numpy_buffers import aligned
from doppler_core.device.threads import blas_threads
from doppler_core.plan.cost import STAYING
from doppler_core.plan.op import Op, Plan, Section
from doppler_core.plan.operands import Array
from doppler_core.settings import Progress
from doppler_core.weights.storage import columns_f32, fill_f32, gather_f32, to_f32
from doppler_core.weights.tensor import Tensor

BLOCK_BYTES = 8 << 20  # an expanded block stays in the cache of the core that multiplies by it
PIECE_BYTES = 16 << 20  # what a thread expands at a time: one tensor may be larger than all others together


@dataclass(frozen=True)
class Expanded:
    """All values in memory as f32, [rows, columns]."""

    array: Array
    packed = False

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.array.shape[0], self.array.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.array.nbytes

    def section(self, section: Section) -> "Expanded":
        """Some of its rows as a weight of their own."""
        return Expanded(self.values(section.first, section.first + section.count))

    def values(self, start: int, stop: int) -> Array:
        """Rows start .. stop - 1, a view."""
        return self.array[start:stop]

    def columns(self, rows: slice, columns: slice) -> Array:
        """Those columns of those rows, a view."""
        return self.array[rows, columns]

    def rows(self, ids: npt.NDArray[np.uint32]) -> Array:
        """The rows of `ids`, [ids, columns]."""
        found: Array = self.array[ids]
        return found


@dataclass(frozen=True)
class Packed:
    """The bytes as the file has them, a memory map; values exist only while they are used."""

    tensor: Tensor
    packed = True
    nbytes = 0  # a memory map is the system's to keep or drop

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.tensor.rows, self.tensor.columns

    def section(self, section: Section) -> "Packed":
        """Some of its rows as a weight of their own."""
        data = self.tensor.row_data(section.first, section.first + section.count).reshape(-1)
        return Packed(replace(self.tensor, shape=(section.count, self.tensor.columns), data=data))

    def values(self, start: int, stop: int) -> Array:
        """Rows start .. stop - 1, expanded."""
        return to_f32(self.tensor, start, stop)

    def columns(self, rows: slice, columns: slice) -> Array:
        """Those columns of those rows, expanded; the first one must begin a block of any type."""
        return columns_f32(self.tensor, rows, columns)

    def rows(self, ids: npt.NDArray[np.uint32]) -> Array:
        """The rows of `ids`, [ids, columns]."""
        return gather_f32(self.tensor, ids)


NumpyWeight = Expanded | Packed


def load_weights(
    plan: Plan, tensors: Mapping[str, Tensor], room: int | None, progress: Progress | None
) -> dict[str, NumpyWeight]:
    """Matrices as f32 while they fit `room`, else packed; experts and tables that are only looked up stay memory maps."""
    matrices = [(op, weight.name) for op in plan.ops() for weight in op.weights if len(weight.shape) > 1]
    staying = {name for op, name in matrices if op.meaning in STAYING}
    multiplied = {name for op, name in matrices if op.meaning not in STAYING}
    left = float("inf") if room is None else room
    loaded: dict[str, NumpyWeight] = {name: Packed(tensors[name]) for name in staying - multiplied}
    fitting: list[str] = []
    for name in sorted(multiplied):
        tensor = tensors[name]
        need = 0 if tensor.dtype == "f32" else 4 * tensor.rows * tensor.columns  # f32 is a view of its file
        if need > left:
            loaded[name] = Packed(tensor)
        else:
            left -= need
            fitting.append(name)
    arrays = _expanded({name: tensors[name] for name in fitting}, progress)
    return loaded | {name: Expanded(array) for name, array in arrays.items()}


def _expanded(tensors: Mapping[str, Tensor], progress: Progress | None) -> dict[str, Array]:
    """All rows as f32: views of their file where they are f32, else arrays that all cores fill."""
    arrays = {
        name: to_f32(tensor) if tensor.dtype == "f32" else np.empty((tensor.rows, tensor.columns), np.float32)
        for name, tensor in tensors.items()
    }
    pieces = list(_pieces({name: tensor for name, tensor in tensors.items() if tensor.dtype != "f32"}))

    def fill(piece: tuple[str, int, int]) -> None:
        name, first, stop = piece
        fill_f32(arrays[name][first:stop], tensors[name], first)

    # The system's handing out of memory takes most of the time.
    with ThreadPoolExecutor(blas_threads()) as pool:
        for number, _ in enumerate(pool.map(fill, pieces)):
            if progress:
                progress("expanding weights", number, len(pieces))
    return arrays


def _pieces(tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, int, int]]:
    """Runs of rows, (name, first, stop), of about a piece's bytes once they are f32."""
    for name, tensor in tensors.items():
        step = max(1, PIECE_BYTES // (4 * tensor.columns))
        for first in range(0, tensor.rows, step):
            yield name, first, min(first + step, tensor.rows)


def load_vectors(plan: Plan, tensors: Mapping[str, Tensor]) -> dict[tuple[str, float], Array]:
    """The weights of one axis as f32, by name and by what is added to them (see `offset_of`)."""
    needed = {
        (weight.name, offset_of(op)) for op in plan.ops() for weight in op.weights if len(weight.shape) == 1
    }
    return {(name, offset): _vector(tensors[name], offset) for name, offset in needed}


def offset_of(op: Op) -> float:
    """What is added to the op's weight of one axis beforehand."""
    return float(op.params.get("offset", 0.0))


def _vector(tensor: Tensor, offset: float) -> Array:
    values = to_f32(tensor).reshape(-1)
    return np.add(values, np.float32(offset), out=aligned(values.size))
