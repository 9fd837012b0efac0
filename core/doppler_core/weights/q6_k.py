"""Q6_K: 210 bytes for 256 values, superblocks in and float32 rows out; the layout is llama.cpp's.

Superblock: bytes 0-127 nibbles, 128-191 the upper two bits, 192-207 sixteen scales (int8), 208-209 d (f16).
value = d * scale[j] * (q - 32), with q in 0..63 and j the sub-block of 16 values. Each half of 128 values has 64 bytes
of nibbles, the low ones values 0-63 and the high ones 64-127, and 32 bytes of upper bits: those of value l are the
pair l // 32 of byte l % 32.
"""

import numpy as np

from doppler_core.weights.floats import Floats, fill_rows
from doppler_core.weights.tensor import Bytes

BYTES = 210

_PAIRS = np.array([[0], [2], [4], [6]], np.uint8)


def dequantize(data: Bytes, values: Floats) -> None:
    """uint8 [R, superblocks * 210] into float32 [R, columns]."""
    blocks = data.reshape(-1, BYTES)
    nibbles = blocks[:, :128].reshape(-1, 2, 2, 32)
    quants = blocks[:, 128:192].reshape(-1, 2, 1, 32) >> _PAIRS
    quants &= 3
    quants <<= 4
    quants[:, :, :2] |= nibbles & 15
    quants[:, :, 2:] |= nibbles >> 4
    steps = np.ascontiguousarray(blocks[:, 208:]).view(np.float16).astype(np.float32)
    numbers = quants.reshape(-1, 16, 16).astype(np.float32)
    numbers -= 32
    numbers *= (steps * blocks[:, 192:208].view(np.int8))[:, :, None]
    fill_rows(values, numbers)
