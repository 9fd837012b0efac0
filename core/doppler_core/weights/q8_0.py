"""Q8_0: 34 bytes for 32 values. float32 rows in, blocks out, and back; the layout is llama.cpp's.

Block: bytes 0-1 d (f16), 2-33 q (int8); value = d * q. A row fills whole blocks, padded with zeros.
"""

import numpy as np

from doppler_core.weights.floats import Floats, fill_rows, pad_rows
from doppler_core.weights.tensor import Bytes

VALUES, BYTES = 32, 34
#: The largest magnitude whose scale is still a finite f16.
LIMIT = 127 * 65504.0

# A block and eight of them together, by part: copied whole, not byte by byte.
_BLOCK = np.dtype([("d", "V2"), ("q", "V32")])
_EIGHT = np.dtype([("d", "V2", (8,)), ("q", "V32", (8,))])


def dequantize(data: Bytes, values: Floats) -> None:
    """uint8 [R, blocks * 34] into float32 [R, columns]."""
    blocks = data.reshape(-1, BYTES)
    scales = np.ascontiguousarray(blocks[:, :2]).view(np.float16).astype(np.float32)
    fill_rows(values, blocks[:, 2:].view(np.int8) * scales)


def quantize(values: Floats) -> Bytes:
    """float32 [R, K], finite and within LIMIT, to uint8 [R, blocks * 34].

    d = f16(max|x| / 127), q = x / d rounded to nearest even: dividing by the rounded d loses nothing to its rounding.
    """
    blocks = pad_rows(values, VALUES).reshape(-1, VALUES)
    scales = (np.abs(blocks).max(axis=1, keepdims=True) / np.float32(127)).astype(np.float16)
    divisors = scales.astype(np.float32)
    divisors[divisors == 0] = np.inf
    quants = np.clip(np.rint(blocks / divisors), -127, 127).astype(np.int8)
    packed = np.concatenate([scales.view(np.uint8), quants.view(np.uint8)], axis=1)
    return packed.reshape(values.shape[0], -1)


def eight_together(data: Bytes) -> Bytes:
    """uint8 [R, blocks * 34], R made up to a multiple of 8 by zeros, with eight rows together (Q8_0x8).

    Neighbouring rows' blocks at the same place take 272 bytes: the eight d, then the 32 q of each row. Kernels that load
    16 bytes at once find nothing that straddles.
    """
    rows, size = data.shape
    if rows % 8:
        data = np.concatenate([data, np.zeros((-rows % 8, size), np.uint8)])
    blocks = np.ascontiguousarray(data).view(_BLOCK).reshape(-1, 8, size // BYTES).swapaxes(1, 2)
    together = np.empty(blocks.shape[:2], _EIGHT)
    for part in ("d", "q"):
        together[part] = blocks[part]
    return together.view(np.uint8).reshape(-1, size)
