"""float32 rows packed into the block types that the project only reads, so that tests have numbers in them.

Plain rounding to the nearest step; the layouts are those of weights/q5_0.py and q6_k.py, which a test of theirs checks.
"""

from collections.abc import Callable, Mapping

import numpy as np

from doppler_core.weights.tensor import BLOCKS, StorageType


def pack(rows: np.ndarray, dtype: StorageType) -> np.ndarray:
    """float32 [R, columns] to uint8 [R, bytes of a row]; the last block of a row is filled with zeros."""
    values = BLOCKS[dtype].values
    padded = np.pad(rows, ((0, 0), (0, -rows.shape[1] % values)))
    return PACKERS[dtype](padded.reshape(-1, values)).reshape(len(rows), -1)


def _halves(values: np.ndarray) -> np.ndarray:
    """float32 [B] to the bytes of f16, [B, 2]."""
    return values.astype(np.float16)[:, None].view(np.uint8)


def _quotients(values: np.ndarray, step: np.ndarray, low: int, high: int) -> np.ndarray:
    """values / step to the nearest whole number of low .. high, 0 where the step is 0; from 0 on, as uint8."""
    quotients = np.divide(values, step, out=np.zeros_like(values), where=step != 0)
    return (np.clip(np.rint(quotients), low, high) - low).astype(np.uint8)


def _q5_0(blocks: np.ndarray) -> np.ndarray:
    step = (np.abs(blocks).max(1) / 15).astype(np.float16).astype(np.float32)
    quants = _quotients(blocks, step[:, None], -16, 15)
    fifth = np.packbits(quants >> 4, axis=1, bitorder="little")
    nibbles = quants[:, :16] & 15 | (quants[:, 16:] & 15) << 4
    return np.concatenate([_halves(step), fifth, nibbles], 1)


def _q6_k(blocks: np.ndarray) -> np.ndarray:
    runs = blocks.reshape(-1, 16, 16)
    wanted = np.abs(runs).max(2) / 31  # the step of each run of 16
    step = (wanted.max(1) / 127).astype(np.float16).astype(np.float32)
    # Every other scale is negative, for they are signed bytes.
    scales = np.rint(np.divide(wanted, step[:, None], out=np.zeros_like(wanted), where=step[:, None] != 0))
    scales[:, 1::2] *= -1
    quants = _quotients(runs, (scales * step[:, None])[:, :, None], -32, 31).reshape(-1, 2, 4, 32)
    nibbles = quants[:, :, :2] & 15 | (quants[:, :, 2:] & 15) << 4
    upper = (quants >> 4 << np.array([[0], [2], [4], [6]], np.uint8)).sum(2, dtype=np.uint8)
    count = len(blocks)
    parts = [nibbles.reshape(count, 128), upper.reshape(count, 64), scales.astype(np.int8).view(np.uint8)]
    return np.concatenate([*parts, _halves(step)], 1)


PACKERS: Mapping[StorageType, Callable[[np.ndarray], np.ndarray]] = {"q5_0": _q5_0, "q6_k": _q6_k}
