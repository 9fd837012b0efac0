"""Q5_0: 22 bytes for 32 values, blocks in and float32 rows out; the layout is llama.cpp's.

Block: bytes 0-1 d (f16), 2-5 the fifth bits (bit j is value j's), 6-21 nibbles; value = d * (q - 16). The low nibbles
are values 0-15, the high ones 16-31.
"""

import numpy as np

from doppler_core.weights.floats import Floats, fill_rows
from doppler_core.weights.tensor import Bytes

BYTES = 22


def dequantize(data: Bytes, values: Floats) -> None:
    """uint8 [R, blocks * 22] into float32 [R, columns]."""
    blocks = data.reshape(-1, BYTES)
    scales = np.ascontiguousarray(blocks[:, :2]).view(np.float16).astype(np.float32)
    quants = np.unpackbits(blocks[:, 2:6], axis=1, bitorder="little")
    quants <<= 4
    nibbles = blocks[:, 6:]
    quants[:, :16] |= nibbles & 15
    quants[:, 16:] |= nibbles >> 4
    numbers = quants.astype(np.float32)
    numbers -= 16
    numbers *= scales
    fill_rows(values, numbers)
