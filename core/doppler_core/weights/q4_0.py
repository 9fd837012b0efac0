"""Q4_0: 18 bytes for 32 values, blocks in and float32 rows out; the layout is llama.cpp's.

Block: bytes 0-1 d (f16), 2-17 nibbles; value = d * (q - 8). The low nibbles are values 0-15, the high ones 16-31.
"""

import numpy as np

from doppler_core.weights.floats import Floats, fill_rows
from doppler_core.weights.tensor import Bytes

BYTES = 18


def dequantize(data: Bytes, values: Floats) -> None:
    """uint8 [R, blocks * 18] into float32 [R, columns]."""
    blocks = data.reshape(-1, BYTES)
    scales = np.ascontiguousarray(blocks[:, :2]).view(np.float16).astype(np.float32)
    nibbles = blocks[:, 2:]
    numbers = np.concatenate([nibbles & 15, nibbles >> 4], axis=1).astype(np.float32)
    numbers -= 8
    numbers *= scales
    fill_rows(values, numbers)
