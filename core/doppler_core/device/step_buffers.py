"""The tables of a step on the GPU: written before it, read by its kernels; `advance` rewrites `rows`."""

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from doppler_core.device.executor import StepTables
from doppler_core.device.gpu import Gpu
from doppler_core.plan.op import LAST, ROWS, SAMPLING, SLOTS, Value

UNIFORM_STRIDE = 256  # where a uniform may begin on every device
PER_ROW, PER_SEQUENCE = 0, UNIFORM_STRIDE  # places of the two Step uniforms: rows = T, rows = S


@dataclass(frozen=True)
class StepBuffers:
    """uniforms: the two Step structs of step.wgsl. tables: a storage buffer for each table of plan.op, by name."""

    uniforms: Any
    tables: dict[str, Any]

    @property
    def owned(self) -> tuple[Any, ...]:
        """All buffers."""
        return (self.uniforms, *self.tables.values())

    def write(self, gpu: Gpu, tables: StepTables) -> None:
        """Put the tables of the next step in their places; a step without a sampling table gets zeros, which is greedy."""
        rows, slots = _plain(tables.rows), _plain(tables.slots)
        sampling = (
            np.zeros((len(slots), SAMPLING.columns), np.uint32)
            if tables.sampling is None
            else tables.sampling
        )
        per_row = struct.pack("<4I", len(rows), len(slots), 0, 0)
        per_sequence = struct.pack("<4I", len(slots), len(slots), 0, 0)
        write = gpu.device.queue.write_buffer
        write(self.uniforms, 0, per_row + bytes(UNIFORM_STRIDE - len(per_row)) + per_sequence)
        write(self.tables[ROWS.name], 0, rows)
        write(self.tables[SLOTS.name], 0, slots)
        write(self.tables[LAST.name], 0, rows[slots[:, 0] + slots[:, 1] - 1])
        write(self.tables[SAMPLING.name], 0, _plain(sampling))


def make_step_buffers(gpu: Gpu, max_rows: int, max_slots: int) -> StepBuffers:
    """Buffers for steps of up to `max_rows` rows in `max_slots` sequences."""
    tables: tuple[Value, ...] = (ROWS, SLOTS, LAST, SAMPLING)
    return StepBuffers(
        uniforms=gpu.uniform(2 * UNIFORM_STRIDE),
        tables={table.name: gpu.storage(table.bytes(max_rows, max_slots)) for table in tables},
    )


def _plain(table: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    return np.ascontiguousarray(table, np.uint32)
