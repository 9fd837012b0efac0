"""A phase's ops bound to the memory of one lane: calls that can be made again and again, with other tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from doppler_core.device.numpy_buffers import Buffers
from doppler_core.device.numpy_call import Call
from doppler_core.device.numpy_lanes import Lane
from doppler_core.device.numpy_ops import ROW_OPS
from doppler_core.device.numpy_weights import NumpyWeight, offset_of
from doppler_core.plan.op import ROWS, Op, State, Value, Weight
from doppler_core.plan.operands import Array, Tables
from doppler_core.plan.signature import per_sequence


@dataclass(frozen=True)
class Group:
    """Row ops that run together, products of one value that do, or one op alone."""

    ops: tuple[Op, ...]
    by_rows: bool
    outputs: frozenset[str]


@dataclass(frozen=True)
class Chosen:
    """What a step of a phase runs, by what it asks for. outputs: those of the phase that it writes."""

    phase: str
    groups: tuple[Group, ...]
    ops: tuple[Op, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Memory:
    """What the ops of every step share. vectors: by name and offset. buffers: by phase. states: by name."""

    weights: Mapping[str, NumpyWeight]
    vectors: Mapping[tuple[str, float], Array]
    constants: Mapping[str, Array]
    buffers: Mapping[str, Buffers]
    states: Mapping[str, npt.NDArray[Any]]

    @property
    def nbytes(self) -> int:
        """Bytes held. Memory maps are not counted."""
        held = (self.weights, self.vectors, self.constants, self.states)
        buffers = max((one.nbytes for one in self.buffers.values()), default=0)  # the same for all phases
        return buffers + sum(one.nbytes for mapping in held for one in mapping.values())


@dataclass(frozen=True)
class Bound:
    """calls: of each group. last: the tables of ops of S rows. facts: what calls derive from the tables."""

    lane: Lane
    groups: Sequence[Group]
    calls: Sequence[Sequence[Call]]
    values: Mapping[str, npt.NDArray[Any]]
    last: Tables
    facts: tuple[dict[object, Any], dict[object, Any]]

    def renew(self, tables: Tables | None = None) -> None:
        """Begin a step: with `tables`, or with the rows that the step before left."""
        own = self.lane.tables
        if tables is not None:
            own.rows[:], own.slots[:] = tables.rows, tables.slots
            if own.sampling is not None:
                own.sampling[:] = 0 if tables.sampling is None else tables.sampling
        self.last.rows[:] = own.rows[own.slots[:, 0] + own.slots[:, 1] - 1]
        for facts in self.facts:
            facts.clear()


def group(ops: Sequence[Op]) -> list[Group]:
    """Row ops that follow each other, of T or of S rows, together; and products of one value by several weights."""
    return [_made(tuple(run), kind[0] == "rows") for kind, run in groupby(ops, key=_kind)]


def _kind(op: Op) -> tuple[str, object]:
    """Ops of one kind run together."""
    if op.meaning in ROW_OPS:
        return "rows", per_sequence(op)
    return ("products", op.inputs[0].name) if op.meaning == "matmul" else ("alone", id(op))


def _made(ops: tuple[Op, ...], by_rows: bool) -> Group:
    return Group(ops, by_rows, frozenset(op.output.name for op in ops))


def choose(phase: str, groups: Sequence[Group], ops: Sequence[Op], outputs: Sequence[Value]) -> Chosen:
    """Of a phase's groups the ops that a step runs. No op changes its group: the arena was laid out for them."""
    wanted = set(map(id, ops))
    parts = [(tuple(op for op in each.ops if id(op) in wanted), each.by_rows) for each in groups]
    written = {op.output.name for op in ops}
    return Chosen(
        phase=phase,
        groups=tuple(_made(members, by_rows) for members, by_rows in parts if members),
        ops=tuple(ops),
        outputs=tuple(value.name for value in outputs if value.name in written),
    )


def bind(phase: str, groups: Sequence[Group], memory: Memory, lane: Lane) -> Bound:
    """The groups' ops on the lane's tables, which the calls keep: `renew` puts others in their place."""
    values: dict[str, npt.NDArray[Any]] = {ROWS.name: lane.tables.rows, **memory.states}
    last = lane.tables.of_sequences()
    facts: tuple[dict[object, Any], dict[object, Any]] = ({}, {})
    calls = []
    for each in groups:
        for op in each.ops:
            if op.output.name not in values:
                values[op.output.name] = memory.buffers[phase].array(op.output, lane)
        calls.append([_call(op, memory, values, lane.tables, last, facts) for op in each.ops])
    return Bound(lane, groups, calls, values, last, facts)


def _call(
    op: Op,
    memory: Memory,
    values: Mapping[str, npt.NDArray[Any]],
    tables: Tables,
    last: Tables,
    facts: tuple[dict[object, Any], dict[object, Any]],
) -> Call:
    of_sequences = per_sequence(op)
    matrices = [weight for weight in op.weights if len(weight.shape) > 1]
    vectors = [weight.name for weight in op.weights if len(weight.shape) == 1]
    return Call(
        params=op.params,
        inputs=[values[value.name] for value in op.inputs],
        output=values[op.output.name],
        weights=[_matrix(weight, memory.weights[weight.name]) for weight in matrices],
        vectors=[memory.vectors[name, offset_of(op)] for name in vectors],
        constants=[memory.constants[constant.name] for constant in op.constants],
        tables=last if of_sequences else tables,
        facts=facts[of_sequences],
        half=op.output.dtype == "f16",
    )


def _matrix(weight: Weight, loaded: NumpyWeight) -> NumpyWeight:
    return loaded if weight.section is None else loaded.section(weight.section)


def state_array(state: State) -> npt.NDArray[Any]:
    """Zeros for a state: floats are held as f32, whatever its dtype (see numpy_ops)."""
    return np.zeros((int(state.shape[0]), state.columns), np.uint32 if state.dtype == "u32" else np.float32)
