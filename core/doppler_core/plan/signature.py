"""What a kernel takes: its operands in binding order, params, overrides, grid and loops; and an op matched to it.

Pure data about WGSL text, which a test checks against that text. It knows no device.

Every kernel has @group(0) @binding(0) `step`, @binding(1) `params`, then the operands from @binding(2) on. Params are
the op's own by name, and these, derived from the op: `segments` (runs of `columns` in a row of the output),
`columns` where the op does not say it (those of its first input), `<operand>_columns` (those of an input),
`output_columns`, `rows_are_slots` (1 for an op of S rows), and for kernels that take a weight in sections of rows
`first_row` (counted from the first row that the op reads), `row_count` (of the dispatch) and `section_rows` (of each of
its sections but the last).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from doppler_core.errors import PlanError
from doppler_core.plan.op import LAST, ROWS, SAMPLING, SLOTS, Constant, Op, Scalar, Value, Weight
from doppler_core.weights.tensor import StorageType

MAX_GRID = 65_535  # workgroups of one grid axis that every device takes
FIRST_OPERAND = 2  # binding of the first operand

Kind = Literal["table", "input", "weight", "constant", "output"]
FieldType = Literal["u32", "f32"]
Bound = Value | Weight | Constant
Params = Mapping[str, Scalar]

# What changes an op's result and only some kernels know, with the value that changes nothing.
_NEUTRAL: Params = {"gain": 1.0, "up_first": 0, "k_first": 0, "v_first": 0, "canvas": 0}

_TABLES = {table.name: table for table in (ROWS, SLOTS, LAST, SAMPLING)}


@dataclass(frozen=True)
class Operand:
    """One storage buffer of a kernel.

    element: how the WGSL types the buffer's elements. present: the override that says whether an optional operand is
    there (a kernel without it is bound to its first input, and does not read it). half: the override that says
    whether a weight or a state is f16. section: which of the dispatch's sections of the weight it is, for a kernel
    that binds several; the first section stands for those the weight lacks.
    """

    name: str
    kind: Kind
    dtypes: tuple[StorageType | Literal["u32"], ...]
    element: str = "f32"
    present: str | None = None
    half: str | None = None
    section: int = 0


@dataclass(frozen=True)
class Signature:
    """A row of the kernel table.

    groups(rows, sequences, params): workgroups of a dispatch. rows: those of the op's first input (T, or S behind the
    pooling), of its output where it has none. iterations(params, longest): an upper bound on the turns that all loops
    of one invocation take together, `longest` being the most keys a sequence has in a step.
    sections: the weight may be bound in sections of whole rows, one dispatch each.
    multiples: params that have to be multiples of a number. flags: overrides that follow from the op's params.
    for_one: the file's entry, with the same operands and params, that is run in its place where the op has one row.
    """

    file: str
    entry: str
    meaning: str
    operands: tuple[Operand, ...]
    params: Mapping[str, FieldType]
    workgroup_size: int
    groups: Callable[[int, int, Params], int]
    iterations: Callable[[Params, int], int]
    overrides: Mapping[str, Scalar] = field(default_factory=dict)
    features: tuple[str, ...] = ()
    subgroup_size: int | None = None
    sections: int = 0
    multiples: Mapping[str, int] = field(default_factory=dict)
    most: Mapping[str, int] = field(default_factory=dict)
    defaults: Mapping[str, Scalar] = field(default_factory=dict)
    flags: Mapping[str, Callable[[Params], Scalar]] = field(default_factory=dict)
    for_one: str | None = None

    def __str__(self) -> str:
        return f"{self.file}#{self.entry}"

    def grid(self, rows: int, sequences: int, params: Params) -> tuple[int, int, int]:
        """The grid of a dispatch; above 65,535 workgroups it is split over y and rounded up."""
        return split_grid(self.groups(rows, sequences, params))


def split_grid(groups: int) -> tuple[int, int, int]:
    """(x, y, 1) with x * y >= groups and no axis above 65,535; kernels drop the surplus."""
    y = max(1, -(-groups // MAX_GRID))
    return -(-groups // y), y, 1


def misfit(signature: Signature, op: Op) -> str:
    """What the kernel asks of the op's sizes and does not get, in words; "" where it fits."""
    wanted = [
        *(f"{name} a multiple of {n}" for name, n in signature.multiples.items() if int(op.params[name]) % n),
        *(f"{name} at most {n}" for name, n in signature.most.items() if op.params[name] > n),
        *(
            f"{name} {neutral:g}"
            for name, neutral in _NEUTRAL.items()
            if name not in signature.params and op.params.get(name, neutral) != neutral
        ),
        *("its weight whole" for weight in op.weights if weight.section and not signature.sections),
    ]
    return ", ".join(wanted)


def fits(signature: Signature, op: Op) -> bool:
    """Whether the kernel takes the op's operands and sizes; a profile substitutes only kernels that fit."""
    try:
        bind_operands(signature, op)
    except PlanError:
        return False
    return not misfit(signature, op)


def per_sequence(op: Op) -> bool:
    """Whether the op works on S rows: those of its first input, or of its output where it has none."""
    return (op.inputs[0] if op.inputs else op.output).shape[0] == "S"


def bind_operands(signature: Signature, op: Op) -> list[Bound | None]:
    """What the op puts into each operand of the signature, None for an optional one it leaves out.

    What an op changes in place is one operand, an output. The table `rows` of an op of S rows is `last`.
    PlanError when the op has too few or too many of a kind, or one of a type the kernel does not read.
    """
    given: dict[Kind, list[Bound]] = {
        "input": [value for value in op.inputs if value != op.output],
        "weight": list(op.weights),
        "constant": list(op.constants),
        "output": [op.output],
    }
    found: list[Bound | None] = []
    for operand in signature.operands:
        if operand.kind == "table":
            of_sequences = operand.name == "rows" and per_sequence(op)
            found.append(LAST if of_sequences else _TABLES[operand.name])
        elif operand.section:
            found.append(op.weights[0])
        elif given[operand.kind]:
            found.append(_accept(signature, operand, given[operand.kind].pop(0), op))
        elif operand.present is not None:
            found.append(None)
        else:
            raise PlanError(
                f"{op.label}: {signature} needs {operand.kind} {operand.name!r}, the op has none left"
            )
    for kind, left in given.items():
        if left:
            raise PlanError(f"{op.label}: {signature} has no place for {kind} {left[0].name!r}")
    return found


def _accept(signature: Signature, operand: Operand, bound: Bound, op: Op) -> Bound:
    dtype = "f32" if isinstance(bound, Constant) else bound.dtype
    if dtype not in operand.dtypes:
        raise PlanError(
            f"{op.label}: {signature} reads {operand.name!r} as {' or '.join(operand.dtypes)}, and {bound.name!r} "
            f"is {dtype}; choose a kernel for {dtype}, or a cast step before this one"
        )
    return bound


def override_values(signature: Signature, op: Op) -> dict[str, Scalar]:
    """The kernel's override constants for this op: the defaults, those that follow from the op, the kernel's own.

    PlanError when the manifest sets an unknown constant, or one against what the op's operands say.
    """
    derived: dict[str, Scalar] = {name: flag(op.params) for name, flag in signature.flags.items()}
    for operand, bound in zip(signature.operands, bind_operands(signature, op), strict=True):
        if operand.present is not None:
            derived[operand.present] = bound is not None
        if operand.half is not None and isinstance(bound, Weight | Value):
            derived[operand.half] = bound.dtype == "f16"
    for name, value in op.kernel.constants.items():
        if name not in signature.overrides:
            known = ", ".join(signature.overrides) or "none"
            raise PlanError(f"{op.label}: {signature} has no override constant {name!r}; it has {known}")
        if derived.get(name, value) != value:
            raise PlanError(
                f"{op.label}: {signature} is given {name}={value!r}, and the op makes it {derived[name]!r}"
            )
    return {**signature.overrides, **derived, **op.kernel.constants}


def kernel_params(signature: Signature, op: Op) -> dict[str, Scalar]:
    """The values of the kernel's params, the whole weight being one section, and of its override constants.

    PlanError names a missing one.
    """
    derived: dict[str, Scalar] = {
        "rows_are_slots": int(per_sequence(op)),
        "output_columns": op.output.columns,
    }
    if "segments" in signature.params:
        derived["segments"] = op.output.columns // int(op.params["columns"])
    for operand, bound in zip(signature.operands, bind_operands(signature, op), strict=True):
        if operand.kind == "input":
            derived[f"{operand.name}_columns"] = (bound if isinstance(bound, Value) else op.inputs[0]).columns
    if signature.sections:
        weight = op.weights[0]
        rows = weight.section.count if weight.section else math.prod(weight.shape[:-1])
        derived |= {"first_row": 0, "row_count": rows, "section_rows": rows}
    whole = {"columns": op.inputs[0].columns} if op.inputs else {}
    params = {**whole, **signature.defaults, **op.params, **derived}
    missing = [name for name in signature.params if name not in params]
    if missing:
        raise PlanError(f"{op.label}: {signature} needs params {missing}, the op has {sorted(op.params)}")
    return {**override_values(signature, op), **{name: params[name] for name in signature.params}}
