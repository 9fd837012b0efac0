"""What a plan costs: bytes moved and FLOPs per op for a step of given size, bytes resident, and the least possible.

A step has `rows` rows in `sequences` sequences of equal length, which had `past` tokens each before it. Ops that a
step must ask for count as greedy steps ask: the likeliest token is chosen, nothing else.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from doppler_core.plan.arena import lay_out, shared
from doppler_core.plan.op import HOST, LAST, ROWS, SAMPLING, SLOTS, Op, Plan, State, Value, Weight
from doppler_core.plan.signature import per_sequence
from doppler_core.weights.tensor import tensor_bytes

_ASKED = ("", "greedy")
_PER_VALUE: Mapping[str, int] = {
    "rmsnorm": 4,
    "rope": 3,
    "gelu": 12,
    "softcap": 4,
    "residual": 1,
    "gather": 1,
    "l2norm": 3,
}
STAYING = ("gather", "expert_matmul")  # meanings whose weights NumPy leaves in their file
_BY_POSITION = ("recall", "tally", "blend", "pick", "soften", "progress", "accept", "noise", "seat")


@dataclass(frozen=True)
class Cost:
    """Of one op or phase: bytes read and written once each, floating-point operations."""

    bytes: int
    flops: int

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.bytes + other.bytes, self.flops + other.flops)


def op_cost(op: Op, rows: int, sequences: int, past: int = 0) -> Cost:
    """The cost of an op in a step. Of experts, all their weights: a step of many rows wants most of them."""
    count = sequences if op.output.shape[0] == "S" else rows
    read = [value for value in op.inputs if value.name != op.output.name]
    moved = sum(_moved(op, value, rows, sequences, past) for value in (*read, op.output))
    if op.meaning == "gather":
        moved += count * tensor_bytes(op.weights[0].dtype, (op.output.columns,))
    else:
        moved += sum(weight.read_bytes for weight in op.weights)
    return Cost(moved, _flops(op, rows, sequences, past, count))


def _moved(op: Op, value: Value, rows: int, sequences: int, past: int) -> int:
    """Bytes of a value that the op touches: all of an intermediate, some rows of a state."""
    if not isinstance(value, State):
        return value.bytes(rows, sequences)
    touched = sequences
    if op.meaning == "store":
        touched = rows
    elif op.meaning == "cached_attention":
        touched = sequences * _keys_read(op, rows, sequences, past)
    elif op.meaning in _BY_POSITION:
        touched = rows
    return touched * (value.bytes(rows, sequences) // int(value.shape[0]))


def _keys_read(op: Op, rows: int, sequences: int, past: int) -> int:
    """Keys of a sequence that at least one of its queries sees."""
    length = -(-rows // sequences)
    queries, window = 1 if per_sequence(op) else length, int(op.params["window"])
    return min(past + length, window + queries - 1) if window else past + length


def _flops(op: Op, rows: int, sequences: int, past: int, count: int) -> int:
    if op.meaning in ("matmul", "projections", "gated_matmul", "expert_matmul", "blend"):
        return (
            2 * count * int(op.params.get("chosen", 1)) * int(op.params["columns"]) * int(op.params["inner"])
        )
    if op.meaning in ("attention", "cached_attention"):
        pairs = sequences * _pairs(op, -(-rows // sequences), past)
        return 4 * pairs * int(op.params["heads"]) * int(op.params["head_dim"])
    if op.meaning == "pool":
        return rows * op.output.columns
    values = op.inputs[0].columns if op.meaning == "sample" else op.output.columns
    return count * values * _PER_VALUE.get(op.meaning, 1)


def _pairs(op: Op, length: int, past: int) -> int:
    """Pairs of a query and a key that it sees, in one sequence."""
    window = int(op.params["window"])
    if op.meaning == "attention" and not op.params["causal"]:
        return length * (min(length, window + 1) if window else length)
    if op.params.get("canvas", False):
        return length * _keys_read(op, length, 1, past)
    first = length - 1 if per_sequence(op) else 0
    seen = range(past + first + 1, past + length + 1)
    return sum(min(window, keys) if window else keys for keys in seen)


def _asked(plan: Plan, phase: str) -> Iterator[Op]:
    return (op for op in plan.phases[phase] if op.when in _ASKED)


def phase_cost(plan: Plan, phase: str, rows: int, sequences: int, past: int = 0) -> Cost:
    """All ops of a phase."""
    total = Cost(0, 0)
    for op in _asked(plan, phase):
        total += op_cost(op, rows, sequences, past)
    return total


def least_bytes(plan: Plan, phase: str, rows: int, sequences: int, past: int = 0) -> int:
    """What no executor can avoid: each weight of the phase once as stored, keys and values once, tables, outputs."""
    ops = list(_asked(plan, phase))
    weights = {weight.name: weight for op in ops if op.meaning != "gather" for weight in op.weights}
    looked_up = sum(
        rows * tensor_bytes(op.weights[0].stored, (op.output.columns,))
        for op in ops
        if op.meaning == "gather"
    )
    tables = ROWS.bytes(rows, sequences) + SLOTS.bytes(rows, sequences)
    stored = sum(tensor_bytes(weight.stored, weight.shape) for weight in weights.values())
    written = {op.output.name for op in ops}
    outputs = sum(output.bytes(rows, sequences) for output in plan.outputs[phase] if output.name in written)
    return stored + looked_up + tables + outputs + _least_states(ops, rows, sequences, past)


def _least_states(ops: list[Op], rows: int, sequences: int, past: int) -> int:
    """Each state's rows once, as the op that reads the most of them does, and those that are written."""
    read: dict[str, int] = {}
    written = 0
    for op in ops:
        for value in op.inputs:
            if isinstance(value, State) and value.name != op.output.name:
                touched = _moved(op, value, rows, sequences, past)
                read[value.name] = max(read.get(value.name, 0), touched)
        if isinstance(op.output, State):
            written += _moved(op, op.output, rows, sequences, past)
    return sum(read.values()) + written


def gpu_resident(plan: Plan) -> int:
    """Bytes on a GPU: weights in the types the kernels read, constants, states, the buffers of the largest step."""
    weights = {weight.name: weight for op in plan.ops() if op.kernel.file != HOST for weight in op.weights}
    held = sum(weight.resident_bytes for weight in weights.values())
    return held + _constants(plan) + state_bytes(plan) + step_bytes(plan)


def numpy_resident(plan: Plan) -> int:
    """Bytes of the NumPy executor: matrices, states and a step's buffers in words, constants."""
    states = sum(4 * int(state.shape[0]) * state.columns for state in plan.states().values())
    return numpy_matrices(plan) + _constants(plan) + states + step_bytes(plan, in_words=True)


def numpy_matrices(plan: Plan) -> int:
    """Bytes of the matrices expanded to f32; tables that are only looked up, experts and f32 tensors stay in the file."""
    multiplied: dict[str, Weight] = {
        weight.name: weight for op in plan.ops() if op.meaning not in STAYING for weight in op.weights
    }
    return sum(tensor_bytes("f32", weight.shape) for weight in multiplied.values() if weight.stored != "f32")


def state_bytes(plan: Plan) -> int:
    """Bytes of what is kept from step to step."""
    return sum(state.bytes(0, 0) for state in plan.states().values())


def step_bytes(plan: Plan, in_words: bool = False) -> int:
    """Bytes of intermediates and tables for the plan's largest step; phases use the same buffers in turn. in_words: each
    value takes four bytes."""
    rows, sequences = plan.largest.rows, plan.largest.sequences
    arenas = [
        lay_out(ops, plan.kept(phase), rows, sequences, in_words=in_words)
        for phase, ops in plan.phases.items()
    ]
    tables = (ROWS, SLOTS, LAST, SAMPLING) if plan.states() else (ROWS, SLOTS)
    return sum(shared(arenas)) + sum(table.bytes(rows, sequences) for table in tables)


def _constants(plan: Plan) -> int:
    return sum(constant.resident_bytes for constant in plan.constants().values())
