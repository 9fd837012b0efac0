"""A decoder in small, as a plan by hand: one full layer, one sliding, greedy sampling; and what its ops mean in all.

Executors are compared with the meanings over many steps: states kept, rings wrapped round, tokens fed back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gpu_ops import tensor

from doppler_core.device.executor import StepTables
from doppler_core.device.states import DTYPES
from doppler_core.plan.constants import make
from doppler_core.plan.meaning import MEANINGS
from doppler_core.plan.op import ROWS, Constant, Kernel, Op, Plan, State, Step, Value, ValueType, Weight
from doppler_core.plan.operands import Operands, Tables
from doppler_core.plan.signature import per_sequence
from doppler_core.weights.storage import to_f32
from doppler_core.weights.tensor import Tensor

VOCABULARY, WIDTH, HEADS, HEAD_DIM = 40, 32, 4, 8
PLACES, CONTEXT, WINDOW, CHUNK = 4, 40, 6, 5
GREEDY = frozenset({"greedy"})
ADVANCING = frozenset({"greedy", "advance"})

_ATTENTION = {"heads": HEADS, "kv_heads": 1, "head_dim": HEAD_DIM, "scale": 0.5, "softcap": 0.0}
_NORM = {"eps": 1e-6, "offset": 0.0}
_TURNS = Constant(
    "turns",
    "rope",
    (CONTEXT, HEAD_DIM // 2, 2),
    {"positions": CONTEXT, "head_dim": HEAD_DIM, "theta": 100.0, "scaling_factor": 1.0},
)


def small_decoder(kv: ValueType = "f32", embed: str = "gather.wgsl") -> tuple[Plan, dict[str, Tensor]]:
    """The plan and its tensors. embed: the kernel file of the embedding, "host" for the host."""
    rng = np.random.default_rng(5)
    shapes: dict[str, tuple[int, ...]] = {
        "table": (VOCABULARY, WIDTH),
        "norm": (HEAD_DIM,),
        "head": (VOCABULARY, WIDTH),
    }
    for layer in range(2):
        shapes |= {f"{layer}.k": (HEAD_DIM, WIDTH), f"{layer}.v": (HEAD_DIM, WIDTH)}
    tensors = {name: tensor(name, rng.standard_normal(shape, np.float32)) for name, shape in shapes.items()}
    weights = {name: Weight(name, shape, "f32", "f32") for name, shape in shapes.items()}
    phases = {phase: _ops(phase, weights, kv, embed) for phase in ("prefill", "decode")}
    outputs = (Value("sampled", ("S", 1), "u32"), Value("logits", ("S", VOCABULARY)))
    return Plan("small", phases, dict.fromkeys(phases, outputs), largest=Step(16, PLACES)), tensors


def _ops(phase: str, weights: Mapping[str, Weight], kv: ValueType, embed: str) -> tuple[Op, ...]:
    ops: list[Op] = []

    def op(meaning: str, role: str, kernel: str, inputs: Sequence[Value], output: Value, *names: str,
           params: Mapping[str, Any] | None = None, when: str = "", constants: tuple[Constant, ...] = ()) -> Value:  # fmt: skip
        file, _, entry = kernel.partition("#")
        read = tuple(weights[name] for name in names)
        ops.append(
            Op(meaning, role, None, Kernel(file, entry or "main", ""), tuple(inputs), output, read, constants,
               params=dict(params or {}), when=when)
        )  # fmt: skip
        return output

    def rows(name: str, columns: int) -> Value:
        return Value(name, ("T", columns))

    x = op("gather", "embed", embed, [], rows("x", WIDTH), "table", params={"scale": 1.5, "columns": WIDTH})
    for layer, (window, capacity) in enumerate(((0, CONTEXT), (WINDOW, WINDOW + CHUNK))):
        state = State(f"{layer}.kv", (PLACES * capacity, 2 * HEAD_DIM), kv, capacity=capacity)
        narrow = {"columns": HEAD_DIM, "inner": WIDTH}
        k = op(
            "matmul", "k", "matmul_f32.wgsl", [x], rows(f"{layer}.k", HEAD_DIM), f"{layer}.k", params=narrow
        )
        v = op(
            "matmul", "v", "matmul_f32.wgsl", [x], rows(f"{layer}.v", HEAD_DIM), f"{layer}.v", params=narrow
        )
        turned = {"head_dim": HEAD_DIM, **_NORM, "columns": HEAD_DIM}
        k = op(
            "rope",
            "rope_k",
            "rope.wgsl",
            [k],
            rows(f"{layer}.rk", HEAD_DIM),
            "norm",
            constants=(_TURNS,),
            params={**turned, "heads": 1},
        )
        q = op(
            "rope",
            "rope_q",
            "rope.wgsl",
            [x],
            rows(f"{layer}.q", WIDTH),
            "norm",
            constants=(_TURNS,),
            params={**turned, "heads": HEADS},
        )
        op(
            "store",
            "store",
            "store.wgsl",
            [k, v, state],
            state,
            params={
                "columns": HEAD_DIM,
                "head_dim": HEAD_DIM,
                "capacity": capacity,
                "value_norm": layer == 1,
                "eps": 1e-6,
            },
        )
        mixed = op(
            "cached_attention",
            "attention",
            "attention_streaming_f16kv.wgsl",
            [q, state],
            rows(f"{layer}.mixed", WIDTH),
            params={**_ATTENTION, "capacity": capacity, "window": window},
        )
        x = op("residual", "add", "residual.wgsl", [x, mixed], rows(f"{layer}.x", WIDTH), params={"columns": WIDTH})  # fmt: skip
    if phase == "prefill":
        x = op(
            "last_rows",
            "last_rows",
            "last_rows.wgsl",
            [x],
            Value("last_x", ("S", WIDTH)),
            params={"columns": WIDTH},
        )
    logits = op("matmul", "head", "matmul_f32.wgsl", [x], Value("logits", ("S", VOCABULARY)), "head",
                params={"columns": VOCABULARY, "inner": WIDTH})  # fmt: skip
    sampled = Value("sampled", ("S", 1), "u32")
    size = {"columns": VOCABULARY, "vocabulary": VOCABULARY}
    op("sample", "sample", "sample.wgsl#sample_single_pass", [logits], sampled, params=size, when="greedy")
    op("advance", "advance", "advance.wgsl", [sampled], ROWS, params=size, when="advance")
    return tuple(ops)


@dataclass
class Meanings:
    """A plan run by its meanings: slow, plain, and right. states: by name, values as the state's dtype rounds them."""

    plan: Plan
    tensors: Mapping[str, Tensor]
    states: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, state in self.plan.states().items():
            self.states[name] = np.zeros(state.shape, DTYPES[state.dtype])

    def step(self, phase: str, step: StepTables) -> dict[str, np.ndarray]:
        """All values of a step, and its `rows` as `advance` left them."""
        tables = Tables(step.rows, step.slots, step.sampling)
        values: dict[str, np.ndarray] = {"rows": step.rows}
        for op in self.plan.phases[phase]:
            if op.when and op.when not in step.active:
                continue
            inputs = [
                self.states[value.name].astype(np.uint32 if value.dtype == "u32" else np.float32)
                if isinstance(value, State)
                else values[value.name]
                for value in op.inputs
            ]
            weights = [to_f32(self.tensors[weight.name]).reshape(weight.shape) for weight in op.weights]
            given = Operands(inputs, weights, [make(constant) for constant in op.constants])
            found = MEANINGS[op.meaning](
                op.params, given, tables.of_sequences() if per_sequence(op) else tables
            )
            if isinstance(op.output, State):
                self.states[op.output.name] = found.astype(DTYPES[op.output.dtype])
            else:
                values[op.output.name] = found
        return values


def step(
    ids: Sequence[Sequence[int]],
    starts: Sequence[int],
    places: Sequence[int],
    active: frozenset[str] = GREEDY,
) -> StepTables:
    """The tables of sequences of these ids, the first of each at its start."""
    rows = np.array(
        [
            (token, start + index, slot, 0)
            for slot, (own, start) in enumerate(zip(ids, starts, strict=True))
            for index, token in enumerate(own)
        ],
        np.uint32,
    )
    lengths = np.array([len(own) for own in ids])
    slots = np.zeros((len(ids), 4), np.uint32)
    slots[:, 0], slots[:, 1], slots[:, 3] = np.cumsum(lengths) - lengths, lengths, places
    return StepTables(rows, slots, None, active)
