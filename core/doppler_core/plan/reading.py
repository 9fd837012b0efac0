"""How a kernel reads a stored tensor: as it is stored, or expanded while it is loaded."""

import dataclasses

from doppler_core.errors import PlanError
from doppler_core.plan.kernels import signature
from doppler_core.plan.op import HOST, Kernel, Op, Plan, Weight
from doppler_core.weights.tensor import TOGETHER, StorageType


def weight_for(kernel: Kernel, name: str, shape: tuple[int, ...], stored: StorageType, label: str) -> Weight:
    """The weight as the kernel reads it: as stored if it can, else as f32 or f16. `label` names the op in messages.

    A packed kernel reads its own packing alone, and values are never packed while loading. f32 goes before f16
    where the kernel has both: it holds every stored type without loss.
    """
    accepted = _accepted(kernel)
    for dtype in _order(stored):
        if dtype in accepted:
            return Weight(name, shape, stored, dtype)
    raise PlanError(
        f"{label}: {kernel} reads weights stored as {' or '.join(accepted) or 'nothing'}, but {name} is stored as {stored}; "
        f"name a kernel for {stored}, or convert the checkpoint with this manifest"
    )


def agreed(plan: Plan) -> Plan:
    """The plan with each tensor read in one type, as it is loaded once: the best that all its readers take.

    PlanError names two ops that take none in common. The token table of a tied head is what has two readers.
    """
    types = {name: _common(name, ops) for name, ops in _readers(plan).items()}

    def settled(op: Op) -> Op:
        if op.kernel.file == HOST:
            return op
        weights = tuple(dataclasses.replace(weight, dtype=types[weight.name]) for weight in op.weights)
        return op if weights == op.weights else dataclasses.replace(op, weights=weights)

    phases = {phase: tuple(settled(op) for op in ops) for phase, ops in plan.phases.items()}
    return dataclasses.replace(plan, phases=phases)


def disputed(plan: Plan) -> set[str]:
    """Tensors whose readers take no type in common."""
    found = set()
    for name, ops in _readers(plan).items():
        try:
            _common(name, ops)
        except PlanError:
            found.add(name)
    return found


def _readers(plan: Plan) -> dict[str, list[Op]]:
    readers: dict[str, list[Op]] = {}
    for op in plan.ops():
        for weight in op.weights:
            if op.kernel.file != HOST:
                readers.setdefault(weight.name, []).append(op)
    return readers


def _common(name: str, ops: list[Op]) -> StorageType:
    weights = [next(weight for weight in op.weights if weight.name == name) for op in ops]
    if len({weight.dtype for weight in weights}) == 1:
        return weights[0].dtype
    accepted = [
        _accepted(op.kernel, op.weights.index(weight)) for op, weight in zip(ops, weights, strict=True)
    ]
    for dtype in _order(weights[0].stored):
        if all(dtype in types for types in accepted):
            return dtype
    other = next(index for index, weight in enumerate(weights) if weight != weights[0])
    raise PlanError(
        f"{name}, stored as {weights[0].stored}: {ops[0].kernel} of {ops[0].label} reads it as "
        f"{' or '.join(accepted[0])}, {ops[other].kernel} of {ops[other].label} as {' or '.join(accepted[other])}; "
        "name kernels that read one type"
    )


def _accepted(kernel: Kernel, index: int = 0) -> tuple[str, ...]:
    """The types that the kernel reads its weight of that number in."""
    operands = [operand.dtypes for operand in signature(kernel).operands if operand.kind == "weight"]
    return operands[index] if index < len(operands) else ()


def _order(stored: StorageType) -> tuple[StorageType, ...]:
    together = (TOGETHER[stored],) if stored in TOGETHER else ()
    return (stored, *together, "f32", "f16")
