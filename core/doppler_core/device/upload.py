"""Weights and constants to the GPU: in pieces, in the type the kernels read."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from doppler_core.device.gpu import Gpu
from doppler_core.device.limits import Section
from doppler_core.errors import PlanError
from doppler_core.plan.op import Weight
from doppler_core.weights.storage import as_kernel_type
from doppler_core.weights.tensor import Bytes, Tensor, row_bytes, tensor_bytes

# Writes wait in host memory until a submit: without one per piece a large model would be there twice.
PIECE_BYTES = 64 << 20


def upload_weight(gpu: Gpu, weight: Weight, tensor: Tensor, section: Section) -> Any:
    """A storage buffer with the section's rows in the weight's kernel type, zero-padded to whole words."""
    if tensor.shape != weight.shape:
        raise PlanError(
            f"weight {weight.name!r}: the plan says shape {weight.shape}, the file has {tensor.shape}"
        )
    size = row_bytes(weight.dtype, tensor.columns)
    buffer = gpu.storage(tensor_bytes(weight.dtype, (section.count, tensor.columns)))
    for first, stop in _pieces(section.count, size):
        rows = as_kernel_type(tensor, weight.dtype, section.first + first, section.first + stop)
        write(gpu, buffer, first * size, rows.reshape(-1))
    return buffer


def write(gpu: Gpu, buffer: Any, offset: int, data: Bytes) -> None:
    """Write bytes at a whole word, padded to whole words, and wait."""
    if data.nbytes % 4:
        data = np.concatenate([data, np.zeros(-data.nbytes % 4, np.uint8)])
    gpu.device.queue.write_buffer(buffer, offset, np.ascontiguousarray(data))
    gpu.wait()


def _pieces(rows: int, size: int) -> Iterator[tuple[int, int]]:
    """Runs of rows of about a piece's bytes; a multiple of eight, so that each begins at a whole word, and no rows that
    lie together are parted."""
    step = max(8, PIECE_BYTES // size // 8 * 8)
    return ((first, min(first + step, rows)) for first in range(0, rows, step))
