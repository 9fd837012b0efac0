"""States as buffers on a GPU: rows written, read and copied in the order of the queue."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from doppler_core.device.gpu import Gpu
from doppler_core.device.states import DTYPES, check_copy, rows_of, values_for
from doppler_core.plan.op import State

_SCRATCH_BYTES = 4 << 20


@dataclass(frozen=True)
class GpuStates:
    """buffers: one for each state, by name. Errors as device.states."""

    gpu: Gpu
    states: Mapping[str, State]
    buffers: Mapping[str, Any]

    def write(self, name: str, row: int, values: npt.NDArray[Any]) -> None:
        """Put rows into a state, after every step submitted so far."""
        values = values_for(self.states, name, row, values)
        if values.size:
            at = row * _row_bytes(self.states[name])
            self.gpu.device.queue.write_buffer(self.buffers[name], at, values)

    def read(self, name: str, row: int, count: int) -> npt.NDArray[Any]:
        """Rows of a state after every step submitted so far."""
        state = rows_of(self.states, name, row, count)
        found = np.empty((count, state.columns), DTYPES[state.dtype])
        if found.size:
            at = row * _row_bytes(state)
            data = self.gpu.device.queue.read_buffer(self.buffers[name], at, found.nbytes)
            found[:] = np.frombuffer(data, found.dtype).reshape(found.shape)
        return found

    def copy(self, name: str, source: int, target: int, count: int) -> None:
        """Copy rows of a state to others: through a scratch buffer, as no copy may read and write the same one."""
        state = check_copy(self.states, name, source, target, count)
        row, buffer = _row_bytes(state), self.buffers[name]
        scratch = self.gpu.buffer(min(count * row, _SCRATCH_BYTES), 0)
        encoder = self.gpu.device.create_command_encoder()
        for done in range(0, count * row, _SCRATCH_BYTES):
            size = min(count * row - done, _SCRATCH_BYTES)
            encoder.copy_buffer_to_buffer(buffer, source * row + done, scratch, 0, size)
            encoder.copy_buffer_to_buffer(scratch, 0, buffer, target * row + done, size)
        self.gpu.device.queue.submit([encoder.finish()])


def _row_bytes(state: State) -> int:
    return state.bytes(0, 0) // int(state.shape[0])
