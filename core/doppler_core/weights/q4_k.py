"""Q4_K: 144 bytes for 256 values. float32 rows in, superblocks out, and back; the layout is llama.cpp's.

Superblock: bytes 0-1 d (f16), 2-3 dmin (f16), 4-15 eight scales and eight minima of 6 bits, 16-143 nibbles.
value = d * scale[j] * q - dmin * minimum[j], with q in 0..15 and j the sub-block of 32 values. Chunk c of 64
values has its nibbles in bytes 16 + 32 c: the low ones are sub-block 2 c, the high ones 2 c + 1.
A row fills whole superblocks, padded with zeros. The search for good scales is in q4_k_search.
"""

import numpy as np
import numpy.typing as npt

from doppler_core.weights.floats import Floats, fill_rows, pad_rows
from doppler_core.weights.q4_k_search import search
from doppler_core.weights.tensor import Bytes

VALUES, BYTES = 256, 144
#: Half of 63 finite f16 steps: the search may take a minimum somewhat beyond the smallest value.
LIMIT = 63 * 65504.0 / 2

_Small = npt.NDArray[np.uint8]


def dequantize(data: Bytes, values: Floats) -> None:
    """uint8 [R, superblocks * 144] into float32 [R, columns]."""
    blocks = data.reshape(-1, BYTES)
    scale(blocks[:, :16], unpack_nibbles(blocks[:, 16:]), values)


def unpack_nibbles(packed: _Small) -> _Small:
    """uint8 [N, 128] to quants [N, 8, 32] of 0..15."""
    chunks = packed.reshape(-1, 32)
    quants = np.empty((len(chunks), 2, 32), np.uint8)
    np.bitwise_and(chunks, 15, out=quants[:, 0])
    np.right_shift(chunks, 4, out=quants[:, 1])
    return quants.reshape(-1, 8, 32)


def scale(heads: Bytes, quants: _Small, values: Floats) -> None:
    """Put quants [N, 8, 32] into rows, as the first 16 bytes of their superblocks scale and shift them.

    Whole sub-blocks are computed where they stay: most of the time goes into moving values.
    """
    rows, columns = values.shape
    count = -(-columns // 32)
    whole = values if columns % 32 == 0 else np.empty((rows, 32 * count), np.float32)
    d, dmin = np.ascontiguousarray(heads[:, :4]).view(np.float16).T.astype(np.float32)
    scales, minima = _unpack_6bit(heads[:, 4:])
    runs = whole.reshape(rows, count, 32)
    runs[...] = quants.reshape(rows, -1, 32)[:, :count]
    runs *= (d * scales).T.reshape(rows, -1, 1)[:, :count]
    runs -= (dmin * minima).T.reshape(rows, -1, 1)[:, :count]
    if whole is not values:
        fill_rows(values, whole)


def quantize(values: Floats) -> Bytes:
    """float32 [R, K], finite and within LIMIT, to uint8 [R, superblocks * 144]."""
    rows = values.shape[0]
    steps, scales, minima, quants = search(pad_rows(values, VALUES).reshape(-1, 8, 32))
    blocks = np.empty((len(quants), BYTES), np.uint8)
    blocks[:, :4] = steps.view(np.uint8)
    blocks[:, 4:16] = _pack_6bit(scales, minima)
    pairs = quants.reshape(-1, 4, 2, 32)
    blocks[:, 16:] = (pairs[:, :, 0] | pairs[:, :, 1] << 4).reshape(-1, 128)
    return blocks.reshape(rows, -1)


def _unpack_6bit(packed: _Small) -> tuple[_Small, _Small]:
    """[N, 12] bytes to scales and minima, each [8, N] of 0..63.

    Byte j < 4 holds scale j, byte 4 + j minimum j, byte 8 + j the low halves of scale and minimum 4 + j, whose
    upper two bits lie on top of bytes j and 4 + j.
    """
    # One line for each byte: NumPy's loops then run over superblocks, not over four bytes.
    first, second, low = np.ascontiguousarray(packed.T).reshape(3, 4, -1)
    scales = np.concatenate([first & 63, (low & 15) | (first >> 6 << 4)])
    minima = np.concatenate([second & 63, (low >> 4) | (second >> 6 << 4)])
    return scales, minima


def _pack_6bit(scales: _Small, minima: _Small) -> _Small:
    """The inverse of `_unpack_6bit`, of [N, 8] each."""
    first = scales[:, :4] | scales[:, 4:] >> 4 << 6
    second = minima[:, :4] | minima[:, 4:] >> 4 << 6
    low = (scales[:, 4:] & 15) | (minima[:, 4:] & 15) << 4
    return np.concatenate([first, second, low], axis=1)
