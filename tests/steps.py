"""The tables of a step, made from sequences of ids."""

from collections.abc import Sequence

import numpy as np


def tables(sequences: Sequence[Sequence[int]], dimensions: int) -> tuple[np.ndarray, np.ndarray]:
    """rows and slots (plan.op) of sequences packed one behind the other."""
    rows, slots = [], []
    for slot, ids in enumerate(sequences):
        slots.append([len(rows), len(ids), dimensions, 0])
        rows += [[token, position, slot, 0] for position, token in enumerate(ids)]
    return np.array(rows, np.uint32), np.array(slots, np.uint32)
