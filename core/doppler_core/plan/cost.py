"""What a plan costs: bytes moved and FLOPs per op for a step of given size, bytes resident, and the least possible."""

from collections.abc import Mapping
from dataclasses import dataclass

from doppler_core.plan.arena import lay_out
from doppler_core.plan.op import ROWS, SLOTS, Op, Plan
from doppler_core.weights.tensor import tensor_bytes


@dataclass(frozen=True)
class Cost:
    """Of one op or phase: bytes read and written once each, floating-point operations."""

    bytes: int
    flops: int

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.bytes + other.bytes, self.flops + other.flops)


def op_cost(op: Op, rows: int, sequences: int) -> Cost:
    """The cost of an op in a step of `rows` rows in `sequences` sequences of equal length."""
    count = sequences if op.output.shape[0] == "S" else rows
    moved = op.output.bytes(rows, sequences) + sum(value.bytes(rows, sequences) for value in op.inputs)
    if op.meaning == "gather":
        moved += count * tensor_bytes(op.weights[0].dtype, (op.output.columns,))
    else:
        moved += sum(weight.resident_bytes for weight in op.weights)
    return Cost(moved, _flops(op, rows, sequences, count))


def _flops(op: Op, rows: int, sequences: int, count: int) -> int:
    if op.meaning == "matmul":
        return 2 * count * int(op.params["columns"]) * int(op.params["inner"])
    if op.meaning == "attention":
        length = -(-rows // sequences)
        window = int(op.params["window"])
        keys = min(length, window + 1) if window else length
        if op.params["causal"]:
            keys = (min(length, window) if window else length + 1) // 2 or 1
        return 4 * rows * keys * int(op.params["heads"]) * int(op.params["head_dim"])
    per_value: Mapping[str, int] = {
        "rmsnorm": 4,
        "rope": 3,
        "gelu": 12,
        "residual": 1,
        "gather": 1,
        "l2norm": 3,
    }
    if op.meaning == "pool":
        return rows * op.output.columns
    return count * op.output.columns * per_value.get(op.meaning, 1)


def phase_cost(plan: Plan, phase: str, rows: int, sequences: int) -> Cost:
    """All ops of a phase."""
    total = Cost(0, 0)
    for op in plan.phases[phase]:
        total += op_cost(op, rows, sequences)
    return total


def least_bytes(plan: Plan, phase: str, rows: int, sequences: int) -> int:
    """What no executor can avoid: each weight of the phase once as stored, the tables in, the output out."""
    weights = {
        weight.name: weight for op in plan.phases[phase] if op.meaning != "gather" for weight in op.weights
    }
    looked_up = sum(
        rows * tensor_bytes(op.weights[0].stored, (op.output.columns,))
        for op in plan.phases[phase]
        if op.meaning == "gather"
    )
    tables = ROWS.bytes(rows, sequences) + SLOTS.bytes(rows, sequences)
    stored = sum(tensor_bytes(weight.stored, weight.shape) for weight in weights.values())
    outputs = sum(output.bytes(rows, sequences) for output in plan.outputs[phase])
    return stored + looked_up + tables + outputs


def gpu_resident(plan: Plan) -> int:
    """Bytes on a GPU: weights in the types the kernels read, constants, the buffers of the largest step."""
    return (
        sum(weight.resident_bytes for weight in plan.weights().values()) + _constants(plan) + step_bytes(plan)
    )


def numpy_resident(plan: Plan) -> int:
    """Bytes of the NumPy executor: f32 matrices, constants, the buffers of the largest step."""
    return numpy_matrices(plan) + _constants(plan) + step_bytes(plan)


def numpy_matrices(plan: Plan) -> int:
    """Bytes of the matrices expanded to f32; weights that are looked up, or f32 already, stay in the file."""
    looked_up = {weight.name for op in plan.ops() if op.meaning == "gather" for weight in op.weights}
    return sum(
        tensor_bytes("f32", weight.shape)
        for weight in plan.weights().values()
        if weight.name not in looked_up and weight.stored != "f32"
    )


def step_bytes(plan: Plan) -> int:
    """Bytes of intermediates and tables for the plan's largest step; phases use the same buffers in turn."""
    rows, sequences = plan.largest.rows, plan.largest.sequences
    arenas = [
        lay_out(ops, plan.kept(phase), rows, sequences).bytes for phase, ops in plan.phases.items()
    ]
    return max(arenas, default=0) + ROWS.bytes(rows, sequences) + SLOTS.bytes(rows, sequences)


def _constants(plan: Plan) -> int:
    return sum(
        {constant.name: constant.resident_bytes for op in plan.ops() for constant in op.constants}.values()
    )
