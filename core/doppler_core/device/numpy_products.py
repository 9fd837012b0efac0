"""Matrix products for the NumPy executor: cut into parts for a crew of threads, and few rows at a time."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from doppler_core.device.numpy_weights import BLOCK_BYTES, NumpyWeight
from doppler_core.plan.operands import Array

# Few rows by a matrix: BLAS first copies the matrix into another order, which takes longer than the product. Of small
# matrices OpenBLAS (with AVX-512) makes no copy, so that the product is made of products this small, in one call:
# 8 rows took 70 ms by 262,144 x 640 instead of 180, 32 rows 380 instead of 510.
SMALL = 1_000_000  # multiplications of a product that OpenBLAS takes for small
FEW_ROWS = 32

PartT = TypeVar("PartT")

SHARES = (
    4  # parts for each thread of a large product of few rows: enough to even out what holds one of them up
)
LEAST = 1 << 18  # multiplications of a part: what is done while another thread wakes up
LARGE = 1 << 20  # of a part where a thread has several


# A part begins at a multiple of it: BLAS computes some of a vector's products together, up to 4 here, and rounds those
# that are left over otherwise. So it makes no difference who shares a product out.
TOGETHER = 16


@dataclass(frozen=True)
class Columns:
    """The columns first .. stop - 1 of a product: those rows of the weight."""

    first: int
    stop: int


@functools.lru_cache(4096)
def product_parts(rows: int, shape: tuple[int, int], packed: bool, threads: int) -> tuple[Columns, ...]:
    """The parts of a product of `rows` rows by a weight of this shape, for so many threads.

    Of a packed weight no part exceeds a block.
    """
    columns, inner = shape
    work, count = rows * columns * inner, 1
    if threads > 1 and work >= threads * LEAST:
        # Many rows are put into another order for each part again, so that parts are few.
        count = threads * (max(1, min(SHARES, work // (threads * LARGE))) if rows <= FEW_ROWS else 1)
    if packed:
        count = max(count, -(-4 * columns * inner // BLOCK_BYTES))
    step = -(-columns // count)
    if not packed:
        step = -(-step // TOGETHER) * TOGETHER
    return tuple(Columns(first, min(first + step, columns)) for first in range(0, columns, step))


def shares(parts: Sequence[PartT], work: int, threads: int) -> Sequence[Sequence[PartT]]:
    """Each part by itself, or all together where another thread would take longer to wake up than to help.

    work: multiplications of all parts.
    """
    return [parts] if threads == 1 or work < LEAST * len(parts) else [[part] for part in parts]


def multiply(x: Array, weight: NumpyWeight, out: Array, part: Columns) -> None:
    """out[:, part] = x W^T. x [R, inner], W [columns, inner], out [R, columns], each row contiguous."""
    multiply_values(x, weight.values(part.first, part.stop), out[:, part.first : part.stop])


def multiply_values(x: Array, values: Array, target: Array) -> None:
    """target = x V^T. x [R, inner], values [columns, inner], target [R, columns], each row contiguous."""
    rows = len(x)
    block = _block(rows, values.shape[1]) if 1 < rows <= FEW_ROWS else 0
    whole = len(values) // block * block if block else 0
    if whole:
        blocks = values[:whole].reshape(-1, block, values.shape[1])
        # [blocks, R, block], a view: a row of the output is as long as all blocks.
        targets = target[:, :whole].reshape(rows, -1, block).transpose(1, 0, 2)
        np.matmul(x, blocks.transpose(0, 2, 1), out=targets)
    if whole < len(values):
        np.matmul(x, values[whole:].T, out=target[:, whole:])


def _block(rows: int, inner: int) -> int:
    """The largest power of two of the weight's rows that make a small product, 0 where none is worth a call."""
    fitting = SMALL // (rows * inner)
    return 1 << (fitting.bit_length() - 1) if fitting >= 8 else 0
