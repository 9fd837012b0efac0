"""What a meaning is given: the op's params, what it reads, and the tables of the step. Data alone; it knows no op."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from doppler_core.plan.op import Scalar

Array = npt.NDArray[np.float32]
Table = npt.NDArray[np.uint32]
Params = Mapping[str, Scalar]


@dataclass(frozen=True)
class Tables:
    """The step's tables (see plan.op), u32: rows [T, 4], slots [S, 4], and sampling [S, 16] in a step that samples."""

    rows: Table
    slots: Table
    sampling: Table | None = None

    def of_sequences(self) -> "Tables":
        """The tables of an op of S rows: the line of `rows` that is each slot's last."""
        return Tables(self.rows[self.slots[:, 0] + self.slots[:, 1] - 1], self.slots, self.sampling)

    def places(self) -> npt.NDArray[np.int64]:
        """Each row's place in the states, [R]."""
        places: npt.NDArray[np.int64] = self.slots[self.rows[:, 2], 3].astype(np.int64)
        return places

    def lines(self, capacity: int) -> npt.NDArray[np.int64]:
        """Each row's line in a state of so many positions a place (plan.op.State), [R]."""
        lines: npt.NDArray[np.int64] = self.places() * capacity + self.rows[:, 1] % capacity
        return lines


@dataclass(frozen=True)
class Operands:
    """Everything an op reads, in the order the op lists it: f32, but for inputs that are u32 in the plan."""

    inputs: Sequence[npt.NDArray[Any]]
    weights: Sequence[Array] = ()
    constants: Sequence[Array] = ()
