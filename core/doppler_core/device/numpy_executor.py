"""The NumPy executor: a plan's ops on the CPU, each weight expanded once or a block at a time.

Two owners of threads: BLAS inside a matmul, a pool of the same size for attention. Row ops that follow each other
run as one group over ranges of rows, so that a range stays in a core's cache from the first op to the last.
"""

import functools
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt

from doppler_core.device.numpy_ops import ROW_OPS, WHOLE_OPS, Call, Part, attention, attention_parts
from doppler_core.device.numpy_weights import Expanded, NumpyWeight, Packed
from doppler_core.device.threads import blas_controller, blas_threads
from doppler_core.errors import EngineClosedError
from doppler_core.plan.arena import lay_out
from doppler_core.plan.constants import make
from doppler_core.plan.op import Op, Plan
from doppler_core.plan.operands import Array, Tables
from doppler_core.settings import Progress
from doppler_core.weights.storage import to_f32
from doppler_core.weights.tensor import Tensor

SHARES = 4  # shares of an attention for each thread: enough to even out what they cost
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
        self._buffers = {phase: self._arena(phase) for phase in plan.phases}
        self._pool = ThreadPoolExecutor(blas_threads(), "doppler-plugins numpy")
        self._blas = blas_controller()
        self._closed = False

    @property
    def memory_bytes(self) -> int:
        """Bytes held: expanded weights, constants, buffers. Memory maps are not counted."""
        weights = sum(one.values.nbytes for one in self._weights.values() if isinstance(one, Expanded))
        constants = sum(table.nbytes for table in self._constants.values())
        return (
            weights + constants + sum(buffer.nbytes for made, _ in self._buffers.values() for buffer in made)
        )

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

    def _arena(self, phase: str) -> tuple[list[Array], Mapping[str, int]]:
        ops = self._plan.phases[phase]
        together = [number for number, group in enumerate(self._groups[phase]) for _ in group.ops]
        arena = lay_out(ops, self._plan.kept(phase), self.max_rows, self.max_slots, together)
        return [np.empty(size // 4, np.float32) for size in arena.sizes], arena.place

    def _run(self, phase: str, tables: Tables, names: Collection[str]) -> dict[str, Array]:
        if self._closed:
            raise EngineClosedError("this executor is closed: open the model again")
        values: dict[str, Array] = {}
        found: dict[str, Array] = {}
        for group in self._groups[phase]:
            calls = [self._call(phase, op, values, tables) for op in group.ops]
            if group.by_rows:
                self._by_rows(group.ops, calls)
            elif group.ops[0].meaning == "attention":
                self._by_parts(calls[0])
            else:
                WHOLE_OPS[group.ops[0].meaning](calls[0])
            found |= {
                op.output.name: values[op.output.name].copy() for op in group.ops if op.output.name in names
            }
        return found

    def _call(self, phase: str, op: Op, values: dict[str, Array], tables: Tables) -> Call:
        buffers, place = self._buffers[phase]
        count = len(tables.rows) if op.output.shape[0] == "T" else len(tables.slots)
        size = count * op.output.columns
        output = buffers[place[op.output.name]][:size].reshape(count, op.output.columns)
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
            tables=tables,
        )

    def _by_rows(self, ops: Sequence[Op], calls: Sequence[Call]) -> None:
        # In this thread alone: ops on a range take microseconds, and a pool spent more on handing the interpreter's
        # lock round than the second core gained (3.2 s against 2.4 s of 11 s, 64 documents on two cores).
        count = len(calls[0].output)
        twins = [ROW_OPS[op.meaning] for op in ops]
        for start in range(0, count, ROW_BLOCK):
            for twin, call in zip(twins, calls, strict=True):
                twin(call, start, min(start + ROW_BLOCK, count))

    def _by_parts(self, call: Call) -> None:
        parts = attention_parts(call)
        if len(parts) == 1:
            attention(call, parts[0])
            return
        # Dealt out in turn, largest first, so that each share is as large as the next. Two owners of threads at once
        # would wait for each other: inside a part BLAS has one.
        count = min(len(parts), SHARES * blas_threads())
        shares = [parts[share::count] for share in range(count)]
        attend = functools.partial(_attend, call)
        with self._blas.limit(limits=1):
            try:
                list(self._pool.map(attend, shares))
            except RuntimeError:
                # At the end of the interpreter no pool lets work start; what has run already may run again.
                if not sys.is_finalizing() and threading.main_thread().is_alive():
                    raise
                for share in shares:
                    attend(share)


def _attend(call: Call, parts: Sequence[Part]) -> None:
    for part in parts:
        attention(call, part)


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
    values: Array = to_f32(tensor).reshape(-1) + np.float32(offset)
    return values
