"""Q5_K: 176 bytes for 256 values, superblocks in and float32 rows out; the layout is llama.cpp's.

Superblock: bytes 0-15 as in Q4_K, 16-47 the fifth bits, 48-175 nibbles. value = d * scale[j] * q - dmin * minimum[j],
with q in 0..31 and j the sub-block of 32 values. Nibbles lie as in Q4_K; bit j of byte 16 + l is the fifth of value l
of sub-block j.
"""

import numpy as np

from doppler_core.weights.floats import Floats
from doppler_core.weights.q4_k import scale, unpack_nibbles
from doppler_core.weights.tensor import Bytes

BYTES = 176

_SUB_BLOCKS = np.arange(8, dtype=np.uint8)[:, None]


def dequantize(data: Bytes, values: Floats) -> None:
    """uint8 [R, superblocks * 176] into float32 [R, columns]."""
    blocks = data.reshape(-1, BYTES)
    quants = blocks[:, None, 16:48] >> _SUB_BLOCKS
    quants &= 1
    quants <<= 4
    quants |= unpack_nibbles(blocks[:, 48:])
    scale(blocks[:, :16], quants, values)
