"""Where the NumPy executor's intermediates lie: the buffers of an arena, of which each lane of a step has a share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from doppler_core.device.numpy_lanes import Lane
from doppler_core.plan.arena import Arena, shared
from doppler_core.plan.op import Value
from doppler_core.plan.operands import Array

_LINE = 16  # values of a cache line


@dataclass(frozen=True)
class Buffers:
    """The buffers as one phase uses them, made for steps of up to `max_rows` rows. place: the one each value lies in."""

    buffers: Sequence[Array]
    place: Mapping[str, int]
    max_rows: int

    @property
    def nbytes(self) -> int:
        """All of them together."""
        return sum(buffer.nbytes for buffer in self.buffers)

    def array(self, value: Value, lane: Lane) -> npt.NDArray[Any]:
        """The array that a lane writes a value to, [rows or slots of the lane, columns], f32 or u32: f32 for f16 too.

        Lanes go through the ops each at its own pace, so that no two of them ever touch the same memory, whatever
        value lies there: a lane's share of a buffer is as long as its rows are of the widest value in it.
        """
        rows = len(lane.tables.rows)
        count = rows if value.shape[0] == "T" else len(lane.tables.slots)
        size = count * value.columns
        buffer = self.buffers[self.place[value.name]]
        if not lane.alone:
            width = len(buffer) // self.max_rows
            buffer = buffer[lane.first * width : (lane.first + rows) * width]
            if size > len(buffer) and value.shape[0] == "S":
                buffer = aligned(size)  # many sequences of a few rows each; what is per sequence is small
        found = buffer[:size].reshape(count, value.columns)
        return found.view(np.uint32) if value.dtype == "u32" else found


def make_buffers(arenas: Mapping[str, Arena], max_rows: int) -> dict[str, Buffers]:
    """The buffers that the phases' arenas ask for, the same for all: only one of them runs at a time.

    They are not yet written to: a system gives memory when it is touched.
    """
    buffers = [aligned(size // 4) for size in shared(arenas.values())]
    return {phase: Buffers(buffers, arena.place, max_rows) for phase, arena in arenas.items()}


def aligned(count: int) -> Array:
    """`count` values from the start of a cache line on.

    NumPy's own arrays start within one, so that each vector register loaded touches two lines: a product of two
    blocks that are in the cache takes 1.7 times as long.
    """
    memory = np.empty(count + _LINE, np.float32)
    start = -memory.ctypes.data // memory.itemsize % _LINE
    return memory[start : start + count]
