"""Weights and constants to the GPU: in pieces, in the type the kernels read."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from doppler_core.device.gpu import Gpu
from doppler_core.errors import PlanError
from doppler_core.plan.op import Section, Weight
from doppler_core.weights.storage import as_kernel_type
from doppler_core.weights.tensor import Bytes, Tensor, row_bytes, tensor_bytes

# Writes wait in host memory until a submit: without one per piece a large model would be there twice.
PIECE_BYTES = 64 << 20


class Uploads:
    """Writes to a GPU. As many of them wait together as make a piece: a wait costs more than a small write."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._waiting = 0

    def weight(self, weight: Weight, tensor: Tensor, section: Section) -> Any:
        """A storage buffer with the section's rows in the weight's kernel type, zero-padded to whole words."""
        if tensor.shape != weight.shape:
            raise PlanError(
                f"weight {weight.name!r}: the plan says shape {weight.shape}, the file has {tensor.shape}"
            )
        size = row_bytes(weight.dtype, tensor.columns)
        buffer = self._gpu.storage(tensor_bytes(weight.dtype, (section.count, tensor.columns)))
        for first, stop in _pieces(section.count, size):
            rows = as_kernel_type(tensor, weight.dtype, section.first + first, section.first + stop)
            self.write(buffer, first * size, rows.reshape(-1))
        return buffer

    def write(self, buffer: Any, offset: int, data: Bytes) -> None:
        """Write bytes at a whole word, padded to whole words."""
        if data.nbytes % 4:
            data = np.concatenate([data, np.zeros(-data.nbytes % 4, np.uint8)])
        if self._waiting + data.nbytes > PIECE_BYTES:
            self.finish()
        self._gpu.device.queue.write_buffer(buffer, offset, np.ascontiguousarray(data))
        self._waiting += data.nbytes

    def finish(self) -> None:
        """Wait until all that was written is there."""
        self._gpu.wait()
        self._waiting = 0


def _pieces(rows: int, size: int) -> Iterator[tuple[int, int]]:
    """Runs of rows of about a piece's bytes; a multiple of eight, so that each begins at a whole word, and no rows that
    lie together are parted."""
    step = max(8, PIECE_BYTES // size // 8 * 8)
    return ((first, min(first + step, rows)) for first in range(0, rows, step))
