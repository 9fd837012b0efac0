"""Whether a GPU adapter can run a plan: found from numbers, before anything is loaded. Pure; it imports no wgpu."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from doppler_core.errors import LimitError, PlanError
from doppler_core.plan.arena import Arena, lay_out
from doppler_core.plan.kernels import signature
from doppler_core.plan.op import HOST, SECTION_ROWS, Op, Plan, Section, State, Weight
from doppler_core.plan.signature import bind_operands, kernel_params, misfit
from doppler_core.weights.tensor import BLOCKS, row_bytes


@dataclass(frozen=True)
class Ability:
    """What an adapter grants.

    max_binding: bytes. storage_buffers: how many a kernel may bind. loop_cap: turns of all loops of an invocation,
    None = no cap.
    """

    name: str
    max_binding: int
    storage_buffers: int
    subgroup_size: int
    loop_cap: int | None
    features: frozenset[str]


def sections(weight: Weight, max_binding: int) -> list[Section]:
    """The weight cut into runs of whole rows that can be bound; one section where it fits.

    They begin at multiples of SECTION_ROWS where that many rows fit, as the sections do that ops ask for.
    """
    rows = math.prod(weight.shape[:-1])
    together = BLOCKS[weight.dtype].rows
    step = max_binding // row_bytes(weight.dtype, weight.shape[-1]) // together * together
    step -= step % SECTION_ROWS if step > SECTION_ROWS else 0
    if step == 0:
        raise LimitError(
            f"weight {weight.name!r}: {together} row(s) exceed the largest binding, {max_binding:,} bytes"
        )
    return [Section(first, min(step, rows - first)) for first in range(0, rows, step)]


@dataclass(frozen=True)
class Span:
    """Rows that an op reads of one buffer of its weight.

    buffer: its number. skipped: rows of the buffer before them. rows: as the op counts, from the first that it reads.
    """

    buffer: int
    skipped: int
    rows: Section


def spans(weight: Weight, cut: Sequence[Section]) -> list[Span]:
    """What an op reads of a weight that is cut into buffers so: of each buffer that has some of its rows."""
    last = cut[-1]
    wanted = weight.section or Section(0, last.first + last.count)
    found = []
    for number, there in enumerate(cut):
        first = max(there.first, wanted.first)
        count = min(there.first + there.count, wanted.first + wanted.count) - first
        if count > 0:
            found.append(Span(number, first - there.first, Section(first - wanted.first, count)))
    return found


def needed_features(plan: Plan) -> frozenset[str]:
    """The GPU features that the plan's kernels need."""
    kernels = (op.kernel for op in plan.ops() if op.kernel.file != HOST)
    return frozenset(feature for kernel in kernels for feature in signature(kernel).features)


def check_plan(plan: Plan, ability: Ability, max_rows: int, max_slots: int) -> dict[str, Arena]:
    """The arena of each phase. LimitError names the op or tensor, what it needs and what there is; PlanError as
    bind_operands."""
    for state in plan.states().values():
        _check_state(state, ability)
    for op in plan.ops():
        if op.kernel.file != HOST:
            _check_op(op, ability, max_rows, max_slots)
    return {phase: lay_out(ops, plan.kept(phase), max_rows, max_slots) for phase, ops in plan.phases.items()}


def _check_state(state: State, ability: Ability) -> None:
    size = state.bytes(0, 0)
    if size > ability.max_binding:
        raise LimitError(
            f"state {state.name!r} needs {size:,} bytes in one binding for {state.places} slots of {state.capacity} "
            f"rows, {ability.name} has {ability.max_binding:,}: lower context_length or slots, or use another device"
        )
    if size // int(state.shape[0]) % 4:
        raise PlanError(
            f"state {state.name!r}: a row of {state.columns} {state.dtype} values is no whole words"
        )


def _check_op(op: Op, ability: Ability, max_rows: int, max_slots: int) -> None:
    row = signature(op.kernel)
    where = f"{op.label}: {row} on {ability.name}"
    if row.subgroup_size is not None and row.subgroup_size != ability.subgroup_size:
        raise LimitError(
            f"{where} needs subgroups of {row.subgroup_size}, the GPU adapter's have {ability.subgroup_size}: "
            "choose another kernel profile"
        )
    if wanted := misfit(row, op):
        raise PlanError(
            f"{where} needs {wanted}, the op has {dict(op.params)}: choose another kernel profile"
        )
    missing = sorted(set(row.features) - ability.features)
    if missing:
        raise LimitError(f"{where} needs the feature {', '.join(missing)}: choose another kernel profile")
    if len(row.operands) > ability.storage_buffers:
        raise LimitError(
            f"{where} binds {len(row.operands)} storage buffers, the GPU adapter grants {ability.storage_buffers}: "
            "choose another kernel profile"
        )
    turns = row.iterations(kernel_params(row, op), max_rows)
    if ability.loop_cap is not None and turns > ability.loop_cap:
        raise LimitError(
            f"{where}: up to {turns:,} loop turns, and this driver silently stops after {ability.loop_cap:,}: "
            "lower context_length, or use another device"
        )
    bound = [value for value in bind_operands(row, op) if value is not None]
    for value in bound:
        if isinstance(value, Weight):
            size = 0 if row.sections else value.resident_bytes
        elif value in (*op.inputs, op.output):
            size = value.bytes(max_rows, max_slots)
        else:
            continue
        if size > ability.max_binding:
            raise LimitError(
                f"{where}: {value.name!r} needs {size:,} bytes in one binding, the device has "
                f"{ability.max_binding:,}: lower context_length, or use another device"
            )
