"""What both executors are: a plan bound to memory, ready to run its phases."""

from collections.abc import Collection
from typing import Protocol

import numpy as np
import numpy.typing as npt


class Executor(Protocol):
    """A plan bound to a device. One thread at a time uses it.

    device: in words. max_rows, max_slots: the largest step it takes.
    """

    device: str
    max_rows: int
    max_slots: int

    @property
    def memory_bytes(self) -> int:
        """Bytes that it holds."""

    def run(
        self, phase: str, rows: npt.NDArray[np.uint32], slots: npt.NDArray[np.uint32]
    ) -> npt.NDArray[np.float32]:
        """Run a phase on the step's tables (plan.op); its output value, f32."""

    def capture(
        self, phase: str, rows: npt.NDArray[np.uint32], slots: npt.NDArray[np.uint32], names: Collection[str]
    ) -> dict[str, npt.NDArray[np.float32]]:
        """Run a phase and give the values of `names` as they were when their op had run (for tests)."""

    def close(self) -> None:
        """Give memory and device back. A second call does nothing."""
