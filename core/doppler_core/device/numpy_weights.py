"""Weights as the NumPy executor holds them: expanded to f32 once, or packed and expanded a block of rows at a time."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from doppler_core.device.numpy_buffers import aligned
from doppler_core.device.threads import blas_threads
from doppler_core.plan.op import Op, Plan
from doppler_core.plan.operands import Array
from doppler_core.settings import Progress
from doppler_core.weights.storage import gather_f32, to_f32
from doppler_core.weights.tensor import Tensor

BLOCK_BYTES = 8 << 20  # an expanded block stays in the cache of the core that multiplies by it


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

    def values(self, start: int, stop: int) -> Array:
        """Rows start .. stop - 1, a view."""
        return self.array[start:stop]

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

    def values(self, start: int, stop: int) -> Array:
        """Rows start .. stop - 1, expanded."""
        return to_f32(self.tensor, start, stop)

    def rows(self, ids: npt.NDArray[np.uint32]) -> Array:
        """The rows of `ids`, [ids, columns]."""
        return gather_f32(self.tensor, ids)


NumpyWeight = Expanded | Packed


def load_weights(
    plan: Plan, tensors: Mapping[str, Tensor], room: int | None, progress: Progress | None
) -> dict[str, NumpyWeight]:
    """Matrices as f32 while they fit `room`, else packed; tables that are only looked up stay memory maps."""
    matrices = [(op, weight.name) for op in plan.ops() for weight in op.weights if len(weight.shape) > 1]
    looked_up = {name for op, name in matrices if op.meaning == "gather"}
    multiplied = {name for op, name in matrices if op.meaning != "gather"}
    left = float("inf") if room is None else room
    loaded: dict[str, NumpyWeight] = {name: Packed(tensors[name]) for name in looked_up - multiplied}
    fitting: list[str] = []
    for name in sorted(multiplied):
        tensor = tensors[name]
        need = 0 if tensor.dtype == "f32" else 4 * tensor.rows * tensor.columns  # f32 is a view of its file
        if need > left:
            loaded[name] = Packed(tensor)
        else:
            left -= need
            fitting.append(name)
    with ThreadPoolExecutor(
        blas_threads()
    ) as pool:  # the system's handing out of memory takes most of the time
        arrays = pool.map(lambda name: to_f32(tensors[name]), fitting)
        for number, (name, array) in enumerate(zip(fitting, arrays, strict=True)):
            if progress:
                progress("expanding weights", number, len(fitting))
            loaded[name] = Expanded(array)
    return loaded


def load_vectors(plan: Plan, tensors: Mapping[str, Tensor]) -> dict[tuple[str, float], Array]:
    """The weights of one axis as f32, by name and by what is added to them (see `offset_of`)."""
    needed = {
        (weight.name, offset_of(op)) for op in plan.ops() for weight in op.weights if len(weight.shape) == 1
    }
    return {(name, offset): _vector(tensors[name], offset) for name, offset in needed}


def offset_of(op: Op) -> float:
    """What the op's twin wants added to its weight of one axis beforehand."""
    has_twin = op.meaning in ("rmsnorm", "rope", "store", "cached_attention")
    return float(op.params.get("offset", 0.0)) if has_twin else 0.0


def _vector(tensor: Tensor, offset: float) -> Array:
    values = to_f32(tensor).reshape(-1)
    return np.add(values, np.float32(offset), out=aligned(values.size))
