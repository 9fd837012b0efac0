"""Ops that the host computes before a step: rows of a table too large for the device, which stays a memory map."""

import numpy as np
import numpy.typing as npt

from doppler_core.device.executor import StepTables
from doppler_core.plan.op import Op
from doppler_core.plan.signature import per_sequence
from doppler_core.weights.storage import gather_f32
from doppler_core.weights.tensor import Tensor


def gathered(op: Op, tensor: Tensor, tables: StepTables) -> npt.NDArray[np.float32]:
    """The meaning `gather`: a row of the table for each row of the step, or for each slot's last, times `scale`."""
    slots = tables.slots
    rows = tables.rows[slots[:, 0] + slots[:, 1] - 1] if per_sequence(op) else tables.rows
    values: npt.NDArray[np.float32] = gather_f32(tensor, rows[:, 0]) * np.float32(op.params["scale"])
    return values
