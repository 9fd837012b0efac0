"""Random weights of any size in next to no time: tiles of one buffer of normals, as a publisher's bf16 or as Q4_K blocks.

Takes a tensor's name and shape; where its values begin in the buffer depends on the name. It knows how Gemma's tensors
are called, and no file format.
"""

import functools
import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from doppler_core.weights import q4_k
from doppler_core.weights.floats import Floats, f32_to_bf16
from doppler_core.weights.tensor import Bytes

# A prime number of values, so that no two rows of a table are the same values.
POOL_VALUES = (1 << 24) - 3
# The search for good scales takes a second or two for so many superblocks, and an hour for all those of a large model.
POOL_BLOCKS = 16_381
_SPARE_ROWS = 4093  # of a packed matrix: where it may begin
_CLIP = 64.0  # of the towers' clipped linears: beyond what they meet, and finite, as an artifact stores it
_PIECE = 1 << 22
_TOKENS = "embed_tokens.weight"

Bits = npt.NDArray[np.uint16]


def bf16(name: str, shape: tuple[int, ...]) -> Iterator[Bits]:
    """A tensor's bits in order, piece by piece: matrices keep the size of what they multiply, and so do vectors."""
    count = math.prod(shape)
    if len(shape) > 1:
        yield from _normals(name, count, _halvings(name, shape[-1]))
    else:
        yield f32_to_bf16(np.full(count, _constant(name, count), np.float32))


def q4_k_blocks(name: str, shape: tuple[int, ...]) -> Bytes:
    """The blocks of a matrix that `bf16` would give the values of, a row's last one padded as `convert` does it.

    A view of rows that all matrices of its shape share, each from another one on, [bytes].
    """
    *axes, columns = shape
    count = math.prod(axes)
    rows = _rows(count + _SPARE_ROWS, columns, _halvings(name, columns), POOL_BLOCKS)
    first = _place(name, _SPARE_ROWS)
    return rows[first : first + count].reshape(-1)


def _halvings(name: str, columns: int) -> int:
    """How often a unit normal is halved; a power of two is near enough. The head is tied to the tokens' table: one as
    large as what layers add would repeat the last token for ever."""
    return round(math.log2(columns) / 2) + name.endswith(_TOKENS)


def _constant(name: str, count: int) -> float:
    """Of a vector or a scalar. Norms multiply by one; those of queries and keys so that a score, the sum of `count`
    products that nothing scales, is about one: larger ones would make attention flip at every rounding."""
    if name.endswith(("_min", "_max")):
        return -_CLIP if name.endswith("_min") else _CLIP
    if name.endswith(("q_norm.weight", "k_norm.weight")):
        return float(count**-0.25)
    return 0.0 if name.endswith((".bias", ".per_dim_scale")) else 1.0


def _normals(name: str, count: int, halvings: int) -> Iterator[Bits]:
    """Normals times 2^-halvings, from a place in the pool that depends on the name."""
    pool = _pool(halvings, POOL_VALUES)
    at = _place(name, pool.size)
    while count:
        piece = pool[at : at + min(count, _PIECE)]
        yield piece
        count -= piece.size
        at = (at + piece.size) % pool.size


def _place(name: str, count: int) -> int:
    return int.from_bytes(name.encode(), "big") % count


@functools.cache
def _pool(halvings: int, count: int) -> Bits:
    """The pool as bf16 bits; there are few sizes."""
    return f32_to_bf16(_unit_normals(count) * np.float32(2.0**-halvings))


@functools.cache
def _unit_normals(count: int) -> Floats:
    return np.random.default_rng(0).standard_normal(count, np.float32)


@functools.cache
def _rows(count: int, columns: int, halvings: int, blocks: int) -> Bytes:
    """Packed rows, [count, bytes of a row], of so many different blocks."""
    whole, rest = divmod(columns, q4_k.VALUES)
    rows = np.empty((count, whole + bool(rest), q4_k.BYTES), np.uint8)
    if whole:
        rows[:, :whole] = np.resize(_blocks(q4_k.VALUES, halvings, blocks), (count, whole, q4_k.BYTES))
    if rest:
        rows[:, whole] = np.resize(_blocks(rest, halvings, blocks), (count, q4_k.BYTES))
    return rows.reshape(count, -1)


@functools.cache
def _blocks(values: int, halvings: int, count: int) -> Bytes:
    """Superblocks of so many normals each, the rest of them padding, [count, bytes]."""
    normals = _unit_normals(count * values).reshape(count, values)
    return q4_k.quantize(normals * np.float32(2.0**-halvings))
