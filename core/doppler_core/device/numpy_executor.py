"""The NumPy executor: a plan's ops on the CPU, each weight expanded once or a block at a time.

A crew of as many threads as BLAS has runs either a lane of the step each (numpy_lanes), or, where there is one lane,
parts of each product and attention; BLAS computes in the thread that calls it. (Products of one row may be left to
BLAS's own threads: numpy_sharing.) Row ops that follow each other run as one group over ranges of rows, so that a range
stays in a core's cache from the first op to the last.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from doppler_core.device.executor import StepTables
from doppler_core.device.numpy_bound import Bound, Chosen, Memory, bind, choose, group, state_array
from doppler_core.device.numpy_buffers import make_buffers
from doppler_core.device.numpy_crew import Crew
from doppler_core.device.numpy_lanes import Lane, join, lanes, whole
from doppler_core.device.numpy_run import Found, run_bound
from doppler_core.device.numpy_sharing import Sharing
from doppler_core.device.numpy_weights import load_vectors, load_weights
from doppler_core.device.states import DTYPES, check_copy, rows_of, values_for
from doppler_core.device.step_check import bounds, check_group, check_step, running
from doppler_core.device.step_left import Left, advanced, left_by
from doppler_core.device.threads import blas_threads, one_blas_thread
from doppler_core.errors import EngineClosedError, InputError
from doppler_core.plan.arena import Arena, lay_out
from doppler_core.plan.constants import make
from doppler_core.plan.op import SAMPLING, Plan
from doppler_core.plan.operands import Array, Tables
from doppler_core.settings import Progress
from doppler_core.weights.tensor import Tensor

Rows = npt.NDArray[np.uint32]

# Rows of a step whose calls are kept for the next of its size: decoding binds once. Canvases are taken on many times.
_KEPT_ROWS = 16
_KEPT = 32


class NumpyTicket:
    """Steps that have run."""

    def __init__(self, found: Mapping[str, npt.NDArray[Any]]) -> None:
        self._found = found

    def ready(self) -> bool:
        """They have."""
        return True

    def result(self) -> Mapping[str, npt.NDArray[Any]]:
        """The phase's outputs by name, [steps, S or T, columns]."""
        return self._found


class NumpyExecutor:
    """A plan bound to memory. `room` is the bytes that expanded weights may take (None: no limit)."""

    def __init__(
        self,
        plan: Plan,
        tensors: Mapping[str, Tensor],
        *,
        max_rows: int,
        max_slots: int,
        room: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.device = "numpy"
        self.max_rows, self.max_slots = max_rows, max_slots
        self._plan = plan
        self._bounds = bounds(plan, max_rows, max_slots)
        self._states = plan.states()
        self._groups = {phase: group(ops) for phase, ops in plan.phases.items()}
        self._memory: Memory | None = Memory(
            weights=load_weights(plan, tensors, room, progress),
            vectors=load_vectors(plan, tensors),
            constants={name: make(constant) for name, constant in plan.constants().items()},
            buffers=make_buffers({phase: self._arena(phase) for phase in plan.phases}, max_rows),
            states={name: state_array(state) for name, state in self._states.items()},
        )
        self._choices: dict[tuple[str, frozenset[str]], Chosen] = {}
        self._bound: dict[tuple[object, ...], Bound] = {}
        self._last: Bound | None = None
        self._left: Left | None = None
        self._crew = Crew(blas_threads(), "doppler-plugins numpy")
        self._sharing = Sharing()

    @property
    def memory_bytes(self) -> int:
        """Bytes held: expanded weights, constants, buffers, states. Memory maps are not counted."""
        return self._open().nbytes

    def submit(
        self,
        phase: str,
        tables: StepTables | None,
        steps: int = 1,
        meanwhile: Callable[[], None] | None = None,
    ) -> NumpyTicket:
        """Run `steps` steps of a phase, here and now."""
        goes_on = tables is None
        if tables is None:
            tables = left_by(self._left, phase)
        check_step(self._bounds[phase], tables)
        chosen = self._chosen(phase, tables.active)
        check_group(self._bounds[phase], tables, chosen.ops, steps, stops_within=meanwhile is not None)
        self._left = None
        found = self._run(chosen, tables, chosen.outputs, steps, goes_on, meanwhile)
        self._left = advanced(phase, tables, chosen.ops, steps)
        return NumpyTicket({name: np.stack([one[name] for one in found]) for name in chosen.outputs})

    def run(self, phase: str, rows: Rows, slots: Rows) -> Array:
        """Run a phase; a copy of its output value."""
        output: Array = self.submit(phase, StepTables(rows, slots)).result()[
            self._plan.outputs[phase][0].name
        ][0]
        return output

    def capture(
        self,
        phase: str,
        rows: Rows,
        slots: Rows,
        names: Collection[str],
        sampling: Rows | None = None,
        active: frozenset[str] = frozenset(),
    ) -> Found:
        """Run a phase and copy the values of `names` when they are complete."""
        tables = StepTables(rows, slots, sampling, active)
        check_step(self._bounds[phase], tables)
        self._left = None
        chosen = self._chosen(phase, active)
        unknown = sorted(set(names) - {op.output.name for op in chosen.ops})
        if unknown:
            raise InputError(f"phase {phase!r} of {self._plan.model} has no values {unknown}")
        return self._run(chosen, tables, names)[0]

    def write_state(self, name: str, row: int, values: npt.NDArray[Any]) -> None:
        """Put rows of the state's dtype into a state, from `row` on."""
        self._open().states[name][row : row + len(values)] = values_for(self._states, name, row, values)

    def read_state(self, name: str, row: int, count: int) -> npt.NDArray[Any]:
        """A copy of rows of a state, in the state's dtype."""
        states, state = self._open().states, rows_of(self._states, name, row, count)
        return states[name][row : row + count].astype(DTYPES[state.dtype])

    def copy_state(self, name: str, source: int, target: int, count: int) -> None:
        """Copy `count` rows of a state to others."""
        states = self._open().states
        check_copy(self._states, name, source, target, count)
        states[name][target : target + count] = states[name][source : source + count]

    def close(self) -> None:
        """Drop weights and buffers. A second call does nothing."""
        self._memory, self._last, self._left = None, None, None
        self._bound.clear()
        self._crew.close()

    def _open(self) -> Memory:
        if self._memory is None:
            raise EngineClosedError("this executor is closed: open the model again")
        return self._memory

    def _arena(self, phase: str) -> Arena:
        together = [number for number, each in enumerate(self._groups[phase]) for _ in each.ops]
        ops = self._plan.phases[phase]
        return lay_out(ops, self._plan.kept(phase), self.max_rows, self.max_slots, together, in_words=True)

    def _chosen(self, phase: str, active: frozenset[str]) -> Chosen:
        if (phase, active) not in self._choices:
            ops = running(phase, self._plan.phases[phase], active)
            outputs = self._plan.outputs[phase]
            self._choices[phase, active] = choose(phase, self._groups[phase], ops, outputs)
        return self._choices[phase, active]

    def _run(
        self,
        chosen: Chosen,
        step: StepTables,
        names: Collection[str],
        steps: int = 1,
        goes_on: bool = False,
        meanwhile: Callable[[], None] | None = None,
    ) -> list[Found]:
        """The values of `names` after each of the steps. goes_on: from the rows that the last bound step left."""
        tables = Tables(step.rows, step.slots, step.sampling)
        split = [] if self._states else lanes(tables, self._crew.count)
        if len(split) > 1:
            with one_blas_thread():
                return [self._run_lanes(chosen, split, names)]
        if self._last is None or not goes_on:
            self._last = self._bind_whole(chosen, step)
        found = []
        for number in range(steps):
            self._last.renew(None if number or goes_on else tables)
            found.append(self._run_whole(self._last, names, meanwhile))
        return found

    def _run_whole(self, bound: Bound, names: Collection[str], meanwhile: Callable[[], None] | None) -> Found:
        by_blas = len(bound.lane.tables.rows) == 1 and self._sharing.by_blas()
        begun = time.perf_counter()
        if by_blas:
            found = run_bound(bound, None, names, meanwhile)
        else:
            with one_blas_thread():
                found = run_bound(bound, self._crew, names, meanwhile)
        if len(bound.lane.tables.rows) == 1 and meanwhile is None:
            self._sharing.note(by_blas, time.perf_counter() - begun)
        return found

    def _bind_whole(self, chosen: Chosen, step: StepTables) -> Bound:
        """The step as one lane; that of a small step, or of canvases, is used again for the next of its size."""
        key = (chosen.phase, step.active, len(step.rows), len(step.slots))
        if key in self._bound:
            return self._bound[key]
        sampling = np.zeros((len(step.slots), SAMPLING.columns), np.uint32)
        lane = whole(Tables(step.rows, step.slots, sampling))
        bound = bind(chosen.phase, chosen.groups, self._open(), lane)
        if len(step.rows) <= _KEPT_ROWS or self._bounds[chosen.phase].canvas:
            if len(self._bound) == _KEPT:
                self._bound.clear()
            self._bound[key] = bound
        return bound

    def _run_lanes(self, chosen: Chosen, split: Sequence[Lane], names: Collection[str]) -> Found:
        def run(lane: Lane) -> Found:
            return run_bound(bind(chosen.phase, chosen.groups, self._open(), lane), self._crew, names)

        found = self._crew.run(run, split)
        by_rows = {op.output.name for op in chosen.ops if op.output.shape[0] == "T"}
        return {
            name: join(
                [values[name] for values in found],
                [lane.rows if name in by_rows else lane.slots for lane in split],
            )
            for name in names
        }
