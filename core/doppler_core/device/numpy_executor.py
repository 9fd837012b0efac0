"""The NumPy executor: a plan's ops on the CPU, each weight expanded once or a block at a time.

Two owners of threads, in turn: a pool whose threads run a lane of the step each (numpy_lanes), or, where there is
one lane, BLAS inside a matmul and the pool for attention. Row ops that follow each other run as one group over ranges
of rows, so that a range stays in a core's cache from the first op to the last.
"""

import functools
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from doppler_core.device.numpy_buffers import aligned, make_buffers
from doppler_core.device.numpy_lanes import Lane, join, lanes
from doppler_core.device.numpy_ops import ROW_OPS, WHOLE_OPS, Call, attention, attention_parts
from doppler_core.device.numpy_weights import Expanded, NumpyWeight, Packed
from doppler_core.device.threads import blas_threads, one_blas_thread
from doppler_core.errors import EngineClosedError
from doppler_core.plan.arena import Arena, lay_out
from doppler_core.plan.constants import make
from doppler_core.plan.op import Op, Plan
from doppler_core.plan.operands import Array, Tables
from doppler_core.settings import Progress
from doppler_core.weights.storage import to_f32
from doppler_core.weights.tensor import Tensor

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

ROW_BLOCK = 128  # rows of a range: what a few ops read and write of them fits a core's second cache


@dataclass(frozen=True)
class _Group:
    """Row ops that run together, or one whole op alone."""

    ops: tuple[Op, ...]
    by_rows: bool


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
        self._groups = {phase: _group(ops) for phase, ops in plan.phases.items()}
        self._weights = _load(plan, tensors, room, progress)
        self._vectors = {
            (weight.name, float(op.params["offset"])): _vector(
                tensors[weight.name], float(op.params["offset"])
            )
            for op in plan.ops()
            if op.meaning == "rmsnorm"
            for weight in op.weights
        }
        constants = {constant.name: constant for op in plan.ops() for constant in op.constants}
        self._constants = {name: make(constant) for name, constant in constants.items()}
        self._buffers = {phase: make_buffers(self._arena(phase), max_rows) for phase in plan.phases}
        self._pool = ThreadPoolExecutor(blas_threads(), "doppler-plugins numpy")
        self._closed = False

    @property
    def memory_bytes(self) -> int:
        """Bytes held: expanded weights, constants, buffers. Memory maps are not counted."""
        weights = sum(one.values.nbytes for one in self._weights.values() if isinstance(one, Expanded))
        constants = sum(table.nbytes for table in self._constants.values())
        return weights + constants + sum(buffers.nbytes for buffers in self._buffers.values())

    def run(self, phase: str, rows: npt.NDArray[np.uint32], slots: npt.NDArray[np.uint32]) -> Array:
        """Run a phase; a copy of its output value."""
        name = self._plan.outputs[phase][0].name
        return self._run(phase, Tables(rows, slots), [name])[name]

    def capture(
        self, phase: str, rows: npt.NDArray[np.uint32], slots: npt.NDArray[np.uint32], names: Collection[str]
    ) -> dict[str, Array]:
        """Run a phase and copy the values of `names` when they are complete."""
        return self._run(phase, Tables(rows, slots), names)

    def close(self) -> None:
        """Drop weights and buffers. A second call does nothing."""
        self._closed = True
        self._pool.shutdown(wait=True)
        self._weights, self._vectors, self._constants, self._buffers = {}, {}, {}, {}

    def _arena(self, phase: str) -> Arena:
        together = [number for number, group in enumerate(self._groups[phase]) for _ in group.ops]
        ops = self._plan.phases[phase]
        return lay_out(ops, self._plan.kept(phase), self.max_rows, self.max_slots, together)

    def _run(self, phase: str, tables: Tables, names: Collection[str]) -> dict[str, Array]:
        if self._closed:
            raise EngineClosedError("this executor is closed: open the model again")
        split = lanes(tables, blas_threads())
        run = functools.partial(self._run_lane, phase, names)
        if len(split) == 1:
            return run(split[0])
        found = self._side_by_side(run, split)
        by_rows = {op.output.name for op in self._plan.phases[phase] if op.output.shape[0] == "T"}
        return {
            name: join(
                [values[name] for values in found],
                [lane.rows if name in by_rows else lane.slots for lane in split],
            )
            for name in found[0]
        }

    def _run_lane(self, phase: str, names: Collection[str], lane: Lane) -> dict[str, Array]:
        values: dict[str, Array] = {}
        found: dict[str, Array] = {}
        for group in self._groups[phase]:
            calls = [self._call(phase, op, values, lane) for op in group.ops]
            if group.by_rows:
                _by_rows(group.ops, calls)
            elif group.ops[0].meaning == "attention":
                self._attend(calls[0], lane)
            else:
                WHOLE_OPS[group.ops[0].meaning](calls[0])
            found |= {
                op.output.name: values[op.output.name].copy() for op in group.ops if op.output.name in names
            }
        return found

    def _call(self, phase: str, op: Op, values: dict[str, Array], lane: Lane) -> Call:
        output = self._buffers[phase].array(op.output, lane)
        values[op.output.name] = output
        is_norm = op.meaning == "rmsnorm"
        return Call(
            params=op.params,
            inputs=[values[value.name] for value in op.inputs],
            output=output,
            weights=[] if is_norm else [self._weights[weight.name] for weight in op.weights],
            vectors=[self._vectors[weight.name, float(op.params["offset"])] for weight in op.weights]
            if is_norm
            else [],
            constants=[self._constants[constant.name] for constant in op.constants],
            tables=lane.tables,
        )

    def _attend(self, call: Call, lane: Lane) -> None:
        parts = attention_parts(call)
        if lane.alone and len(parts) > 1:
            self._side_by_side(functools.partial(attention, call), parts)
        else:
            for part in parts:
                attention(call, part)

    def _side_by_side(self, run: Callable[[ItemT], ResultT], items: Sequence[ItemT]) -> list[ResultT]:
        """`run` of each item, in the pool's threads."""
        under_way: list[Future[ResultT]] = []
        with one_blas_thread():
            try:
                under_way.extend(self._pool.submit(run, item) for item in items)
            except RuntimeError:
                # At the end of the interpreter no pool lets work start; what has run already may run again.
                if not sys.is_finalizing() and threading.main_thread().is_alive():
                    raise
                wait(under_way)
                return [run(item) for item in items]
            wait(under_way)  # all, even where one has failed: the next step uses the same buffers
            return [future.result() for future in under_way]


def _by_rows(ops: Sequence[Op], calls: Sequence[Call]) -> None:
    count = len(calls[0].output)
    twins = [ROW_OPS[op.meaning] for op in ops]
    for start in range(0, count, ROW_BLOCK):
        for twin, call in zip(twins, calls, strict=True):
            twin(call, start, min(start + ROW_BLOCK, count))


def _group(ops: Sequence[Op]) -> list[_Group]:
    groups = []
    for by_rows, run in groupby(ops, key=lambda op: op.meaning in ROW_OPS):
        members = tuple(run)
        groups += [_Group(members, True)] if by_rows else [_Group((op,), False) for op in members]
    return groups


def _load(
    plan: Plan, tensors: Mapping[str, Tensor], room: int | None, progress: Progress | None
) -> dict[str, NumpyWeight]:
    """Matrices as f32 while they fit `room`, else packed; tables that are only looked up stay memory maps."""
    looked_up = {weight.name for op in plan.ops() if op.meaning == "gather" for weight in op.weights}
    multiplied = {weight.name for op in plan.ops() if op.meaning == "matmul" for weight in op.weights}
    left = float("inf") if room is None else room
    loaded: dict[str, NumpyWeight] = {name: Packed(tensors[name]) for name in looked_up - multiplied}
    for number, name in enumerate(sorted(multiplied)):
        if progress:
            progress("expanding weights", number, len(multiplied))
        tensor = tensors[name]
        need = 4 * tensor.rows * tensor.columns
        if tensor.dtype == "f32":
            loaded[name] = Expanded(to_f32(tensor))  # a view of its file, which takes no room
        elif need > left:
            loaded[name] = Packed(tensor)
        else:
            left -= need
            loaded[name] = Expanded(to_f32(tensor))
    return loaded


def _vector(tensor: Tensor, offset: float) -> Array:
    values = to_f32(tensor).reshape(-1)
    return np.add(values, np.float32(offset), out=aligned(values.size))
