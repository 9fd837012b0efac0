"""A plan as people and programs read it: a table of lines, or JSON."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from doppler_core.plan.cost import gpu_resident, least_bytes, numpy_resident, op_cost, phase_cost
from doppler_core.plan.op import ROWS, Op, Plan, State, Value, Weight

COST_ROWS = 512  # the step that costs are given for, unless told otherwise
COST_SEQUENCES = 4


def plan_lines(
    plan: Plan,
    phase: str | None = None,
    *,
    cost: bool = False,
    rows: int = COST_ROWS,
    sequences: int = COST_SEQUENCES,
) -> Iterator[str]:
    """The plan as text: each op's layer, role, kernel, digest, shapes, types, origin; then what was not used.

    Costs are those of a step of `rows` rows in `sequences` sequences; of `decode`, of one row after `rows` tokens.
    """
    yield f"plan of {plan.model}" + (f", kernel profile {plan.profile}" if plan.profile else "")
    for name in plan.phases if phase is None else [phase]:
        yield f"\nphase {name}"
        for op in plan.phases[name]:
            yield _line(op) + (_cost_columns(op, _size(name, rows, sequences)) if cost else "")
    if plan.states():
        yield "\nkept from step to step"
        yield from (f"  {state.name:21} {_state(state)}" for state in plan.states().values())
    if plan.findings:
        yield "\nnot part of the ops"
        for finding in plan.findings:
            yield f"  {finding.standing:24} {finding.where}: {finding.reason}"
    if cost:
        yield ""
        yield from _cost_lines(plan, phase, rows, sequences)


def _line(op: Op) -> str:
    layer = "" if op.layer is None else str(op.layer)
    reads = ", ".join([_shape(value) for value in op.inputs] + [_weight(weight) for weight in op.weights])
    params = " ".join(
        f"{name}={value:g}" for name, value in op.params.items() if name not in ("columns", "inner")
    )
    line = (
        f"  {layer:>3} {op.role:21} {op.kernel!s:48} {op.kernel.digest[7:15]} {op.origin:11} "
        f"{reads} -> {_shape(op.output)}"
    )
    asked = f"when {op.when}" if op.when else ""
    return line + "".join(f" | {part}" for part in (params, asked, op.note) if part)


def _shape(value: Value) -> str:
    named = isinstance(value, State) or value == ROWS
    return (f"{value.name} " if named else "") + f"{value.dtype}[{', '.join(map(str, value.shape))}]"


def _state(state: State) -> str:
    size = f"{state.bytes(0, 0) / 1e6:.2f} MB"
    return f"{state.dtype}[{state.columns}], {state.places} slots of {state.capacity} rows, {size}"


def _size(phase: str, rows: int, sequences: int) -> tuple[int, int, int]:
    """Rows, sequences and past tokens of the step that a phase's cost is given for."""
    return (1, 1, rows) if phase == "decode" else (rows, sequences, 0)


def _weight(weight: Weight) -> str:
    read = weight.stored if weight.stored == weight.dtype else f"{weight.stored} as {weight.dtype}"
    return f"{weight.name} {read}{list(weight.shape)}"


def _cost_columns(op: Op, size: tuple[int, int, int]) -> str:
    cost = op_cost(op, *size)
    return f" | {cost.bytes / 1e6:.2f} MB {cost.flops / 1e6:.1f} MFLOP"


def _cost_lines(plan: Plan, phase: str | None, rows: int, sequences: int) -> Iterator[str]:
    names = list(plan.phases) if phase is None else [phase]
    one = f"; of decode, one row after {rows} tokens" if "decode" in names else ""
    yield f"cost of a step of {rows} rows in {sequences} sequences{one}"
    for name in names:
        total = phase_cost(plan, name, *_size(name, rows, sequences))
        least = least_bytes(plan, name, *_size(name, rows, sequences))
        yield f"  {name}: {total.bytes / 1e6:,.1f} MB moved, {total.flops / 1e9:,.2f} GFLOP; least possible {least / 1e6:,.1f} MB"
    gpu, numpy = gpu_resident(plan) / 1e6, numpy_resident(plan) / 1e6
    yield f"resident, with buffers for steps of {plan.largest.rows} rows in {plan.largest.sequences} sequences"
    yield f"  on a GPU {gpu:,.1f} MB, with NumPy {numpy:,.1f} MB"


def plan_json(
    plan: Plan,
    phase: str | None = None,
    *,
    cost: bool = False,
    rows: int = COST_ROWS,
    sequences: int = COST_SEQUENCES,
) -> dict[str, Any]:
    """The plan as JSON data, with the same content."""
    names = list(plan.phases) if phase is None else [phase]
    found: dict[str, Any] = {
        "model": plan.model,
        "profile": plan.profile,
        "phases": {name: [_op_json(op) for op in plan.phases[name]] for name in names},
        "outputs": {name: [dataclasses.asdict(output) for output in plan.outputs[name]] for name in names},
        "states": [
            {**dataclasses.asdict(state), "bytes": state.bytes(0, 0)} for state in plan.states().values()
        ],
        "findings": [dataclasses.asdict(finding) for finding in plan.findings],
    }
    if cost:
        for name in names:
            for op, entry in zip(plan.phases[name], found["phases"][name], strict=True):
                entry["cost"] = dataclasses.asdict(op_cost(op, *_size(name, rows, sequences)))
        found["cost"] = {
            "rows": rows,
            "sequences": sequences,
            "phases": {
                name: dataclasses.asdict(phase_cost(plan, name, *_size(name, rows, sequences)))
                for name in names
            },
            "leastBytes": {name: least_bytes(plan, name, *_size(name, rows, sequences)) for name in names},
            "largestStep": dataclasses.asdict(plan.largest),
            "residentBytes": {"gpu": gpu_resident(plan), "numpy": numpy_resident(plan)},
        }
    return found


def _op_json(op: Op) -> dict[str, Any]:
    return {
        "layer": op.layer,
        "role": op.role,
        "meaning": op.meaning,
        "kernel": op.kernel.file,
        "entry": op.kernel.entry,
        "digest": op.kernel.digest,
        "constants": dict(op.kernel.constants),
        "inputs": [dataclasses.asdict(value) for value in op.inputs],
        "weights": [dataclasses.asdict(weight) for weight in op.weights],
        "tables": [constant.name for constant in op.constants],
        "output": dataclasses.asdict(op.output),
        "params": dict(op.params),
        "origin": op.origin,
        "when": op.when,
        "note": op.note,
    }
