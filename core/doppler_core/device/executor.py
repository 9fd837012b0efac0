"""What both executors are: a plan bound to memory, ready to run its phases."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Table = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class StepTables:
    """The tables of a step (plan.op), u32: rows [T, 4], slots [S, 4], sampling [S, 16] for phases that sample.

    active: what the step asks for; an op whose `when` is not among them does not run.
    """

    rows: Table
    slots: Table
    sampling: Table | None = None
    active: frozenset[str] = frozenset()


class Ticket(Protocol):
    """Steps under way. Asking for the result waits; asking twice gives the same."""

    def ready(self) -> bool:
        """Whether the result is known to be there. False where only asking for it would tell."""

    def result(self) -> Mapping[str, npt.NDArray[Any]]:
        """The phase's outputs by name, [steps, S or T, columns]: f32 or u32; only those whose op ran."""


class Executor(Protocol):
    """A plan bound to a device. One thread at a time uses it.

    device: in words. max_rows, max_slots: the largest step it takes. A step that does not fit the plan is an
    InputError, and nothing of it runs.
    """

    device: str
    max_rows: int
    max_slots: int

    @property
    def memory_bytes(self) -> int:
        """Bytes that it holds."""

    def submit(
        self,
        phase: str,
        tables: StepTables | None,
        steps: int = 1,
        meanwhile: Callable[[], None] | None = None,
    ) -> Ticket:
        """Start `steps` steps of a phase and do not wait for them.

        The first runs on `tables`, each further one on the rows that the plan's `advance` op left on the device: the
        token just sampled, one position on. More than one step needs that op active, and one row a slot. None: go on
        from the rows that the last step submitted left, its phase, slots and wishes staying the same.

        meanwhile: of one step, called once before the first op that only runs where a step asks for it. On a GPU the
        ops before that one are under way then, so that what takes the host time, and has to be in a state before a
        token is chosen, costs none. What it raises is raised here, and the rest of the step does not run.
        """

    def run(
        self, phase: str, rows: npt.NDArray[np.uint32], slots: npt.NDArray[np.uint32]
    ) -> npt.NDArray[np.float32]:
        """Run a phase on the step's tables (plan.op); its first output value, f32."""

    def capture(
        self,
        phase: str,
        rows: npt.NDArray[np.uint32],
        slots: npt.NDArray[np.uint32],
        names: Collection[str],
        sampling: Table | None = None,
        active: frozenset[str] = frozenset(),
    ) -> dict[str, npt.NDArray[Any]]:
        """Run a phase and give the values of `names` as they were when their op had run (for tests)."""

    def write_state(self, name: str, row: int, values: npt.NDArray[Any]) -> None:
        """Put rows of the state's dtype into a state, from `row` on, after every step submitted so far."""

    def read_state(self, name: str, row: int, count: int) -> npt.NDArray[Any]:
        """Rows of a state after every step submitted so far, in the state's dtype."""

    def copy_state(self, name: str, source: int, target: int, count: int) -> None:
        """Copy `count` rows of a state to others, on the device, after every step submitted so far."""

    def close(self) -> None:
        """Give memory and device back. A second call does nothing."""
