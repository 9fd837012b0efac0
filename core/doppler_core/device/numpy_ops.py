"""Faster twins of the meanings, for the NumPy executor: they write into buffers that are reused.

A row op computes any range of rows by itself, so that ranges can be small enough to stay in a core's cache.
Attention falls into parts, which a pool runs side by side. A whole op needs all rows: matmul, where BLAS owns
the threads, and what pools slots.
Each twin is tested against its meaning in plan.meaning.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from doppler_core.device.numpy_weights import NumpyWeight, Packed
from doppler_core.plan.meaning import MEANINGS, visible
from doppler_core.plan.operands import Array, Operands, Params, Tables

QUERY_BLOCK = 256  # rows of queries whose scores exist at one time


@dataclass(frozen=True)
class Call:
    """An op bound to its buffers for one step: everything but the range of rows."""

    params: Params
    inputs: Sequence[Array]
    output: Array
    weights: Sequence[NumpyWeight]
    vectors: Sequence[Array]  # weights of one row, as f32 with their offset added
    constants: Sequence[Array]
    tables: Tables


def gather(call: Call, a: int, b: int) -> None:
    table = call.weights[0]
    ids = call.tables.rows[a:b, 0]
    values = table.rows(ids) if isinstance(table, Packed) else table.values[ids]
    np.multiply(values, np.float32(call.params["scale"]), out=call.output[a:b])


def rmsnorm(call: Call, a: int, b: int) -> None:
    columns = int(call.params["columns"])
    x = call.inputs[0][a:b].reshape(-1, columns)
    out = call.output[a:b].reshape(-1, columns)
    mean = np.vecdot(x, x) / np.float32(columns)
    scale = np.reciprocal(np.sqrt(mean + np.float32(call.params["eps"])))
    np.multiply(x, scale[:, None], out=out)
    if call.vectors:
        np.multiply(out, call.vectors[0], out=out)
    if len(call.inputs) > 1:
        np.add(call.output[a:b], call.inputs[1][a:b], out=call.output[a:b])


def rope(call: Call, a: int, b: int) -> None:
    half = int(call.params["head_dim"]) // 2
    x = call.inputs[0][a:b].reshape(b - a, -1, 2, half)
    out = call.output[a:b].reshape(x.shape)
    turn = call.constants[0].take(call.tables.rows[a:b, 1], axis=0)
    cos = turn[:, None, None, :, 0].copy()  # a stride of two would slow every product down
    sin = np.stack([-turn[..., 1], turn[..., 1]], axis=1)[:, None]
    np.multiply(x, cos, out=out)
    np.add(out, x[:, :, ::-1] * sin, out=out)


def gelu(call: Call, a: int, b: int) -> None:
    gate, up, out = call.inputs[0][a:b], call.inputs[1][a:b], call.output[a:b]
    slope = np.sqrt(2 / np.pi)
    np.multiply(gate, gate, out=out)
    np.multiply(out, np.float32(slope * 0.044715), out=out)
    np.add(out, np.float32(slope), out=out)
    np.multiply(out, gate, out=out)
    np.tanh(out, out=out)
    np.add(out, np.float32(1), out=out)
    np.multiply(out, gate, out=out)
    np.multiply(out, up, out=out)
    np.multiply(out, np.float32(0.5), out=out)


def residual(call: Call, a: int, b: int) -> None:
    np.add(call.inputs[0][a:b], call.inputs[1][a:b], out=call.output[a:b])


def matmul(call: Call) -> None:
    for start, stop, block in call.weights[0].blocks():
        if stop - start == call.output.shape[1]:
            np.matmul(call.inputs[0], block.T, out=call.output)
        else:
            call.output[:, start:stop] = call.inputs[0] @ block.T


@dataclass(frozen=True)
class Part:
    """A block of consecutive query rows of one slot, whose keys are `count` rows from `first` on."""

    queries: slice
    first: int
    count: int


def attention_parts(call: Call) -> list[Part]:
    """The parts of an attention that can run side by side, the largest first."""
    parts = [
        Part(slice(start, min(start + QUERY_BLOCK, first + count)), first, count)
        for first, count, *_ in call.tables.slots.tolist()
        for start in range(first, first + count, QUERY_BLOCK)
    ]
    return sorted(parts, key=lambda part: part.count * (part.queries.stop - part.queries.start), reverse=True)


def attention(call: Call, part: Part) -> None:
    mine, first, count = part.queries, part.first, part.count
    params = call.params
    position = call.tables.rows[:, 1]
    keys = _key_range(params, position, mine, first, count)
    bias = None
    if params["causal"] or params["window"]:
        seen = visible(params, position[mine], position[keys])
        bias = None if seen.all() else np.where(seen, np.float32(0), np.float32(-np.inf))
    q, k, v = call.inputs
    kv_heads, width = int(params["kv_heads"]), int(params["head_dim"])
    group = int(params["heads"]) // kv_heads
    for head in range(kv_heads):
        span = slice(head * group * width, (head + 1) * group * width)
        kv_span = slice(head * width, (head + 1) * width)
        # The heads that share a key head become rows of one product: [queries * group, keys].
        scores = q[mine, span].reshape(-1, width) @ k[keys, kv_span].T
        np.multiply(scores, np.float32(params["scale"]), out=scores)
        if params["softcap"]:
            np.divide(scores, np.float32(params["softcap"]), out=scores)
            np.tanh(scores, out=scores)
            np.multiply(scores, np.float32(params["softcap"]), out=scores)
        if bias is not None:
            grouped = scores.reshape(-1, group, scores.shape[1])
            np.add(grouped, bias[:, None], out=grouped)
        np.subtract(scores, scores.max(-1, keepdims=True), out=scores)
        np.exp(scores, out=scores)
        np.divide(scores, scores.sum(-1, keepdims=True), out=scores)
        call.output[mine, span] = (scores @ v[keys, kv_span]).reshape(mine.stop - mine.start, -1)


def _key_range(params: Params, position: np.ndarray, mine: slice, first: int, count: int) -> slice:
    """The rows of keys that some query of `mine` sees; positions rise by one within a slot."""
    window, last = int(params["window"]), first + count
    if not window:
        return slice(first, mine.stop if params["causal"] else last)
    if params["causal"]:
        return slice(max(first, mine.start - window + 1), mine.stop)
    return slice(max(first, mine.start - window // 2), min(last, mine.stop + window // 2))


def _by_meaning(name: str) -> Callable[[Call], None]:
    """An op too small to need a twin runs its meaning."""

    def run(call: Call) -> None:
        call.output[...] = MEANINGS[name](call.params, Operands(call.inputs), call.tables)

    return run


ROW_OPS: Mapping[str, Callable[[Call, int, int], None]] = {
    "gather": gather,
    "rmsnorm": rmsnorm,
    "rope": rope,
    "gelu": gelu,
    "residual": residual,
}
WHOLE_OPS: Mapping[str, Callable[[Call], None]] = {
    "matmul": matmul,
    "pool": _by_meaning("pool"),
    "l2norm": _by_meaning("l2norm"),
}
