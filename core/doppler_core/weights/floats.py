"""float32 rows: bf16 bit patterns to them and back, padding to whole blocks and leaving the padding out."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


def bf16_to_f32(bits: npt.NDArray[np.uint16]) -> Floats:
    """Exact: a bf16 is the upper half of a float32."""
    return np.left_shift(bits, np.uint32(16), dtype=np.uint32).view(np.float32)


def f32_to_bf16(values: Floats) -> npt.NDArray[np.uint16]:
    """The nearest bf16 (ties to even) of finite values that stay finite."""
    bits = values.view(np.uint32)
    # Just under one half, plus the last kept bit, carries into the upper half exactly when rounding goes up.
    carry = np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))
    return (bits + carry >> np.uint32(16)).astype(np.uint16)


def pad_rows(values: Floats, block: int) -> Floats:
    """Rows padded on the right with zeros to whole blocks of values; contiguous."""
    missing = -values.shape[1] % block
    return np.pad(values, ((0, 0), (0, missing))) if missing else np.ascontiguousarray(values)


def fill_rows(values: Floats, padded: Floats) -> None:
    """Fill rows with the numbers of theirs, in any shape, that are no padding."""
    values[...] = padded.reshape(len(values), -1)[:, : values.shape[1]]
