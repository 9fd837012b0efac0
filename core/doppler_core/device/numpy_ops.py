"""Faster twins of the meanings, for the NumPy executor: they write into buffers that are reused.

A row op computes any range of rows by itself, so that ranges can be small enough to stay in a core's cache. An op of
parts falls into some that threads run side by side: products and attention. A whole op needs all rows: what pools
slots, picks rows or changes a state. Values and states are held as f32 (u32 for those of that), whatever their dtype,
and rounded to the dtype when they are written, sums being f32 until then: to widen 512 rows of f16 for each layer and
token took four times as long as the attention over them (225 us and 61 us, one key head of 256).
Each twin is tested against its meaning in plan.meaning.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from doppler_core.device.numpy_attention import Part, attend, cached_parts, step_parts
from doppler_core.device.numpy_call import Call, PartOp
from doppler_core.device.numpy_canvas import blend_parts, blend_soft, pick, tally_parts, tally_tiles
from doppler_core.device.numpy_experts import expert_parts, expert_sum, multiply_experts
from doppler_core.device.numpy_products import Columns, multiply, product_parts, shares
from doppler_core.plan.meaning import MEANINGS
from doppler_core.plan.operands import Array, Operands, Params


def gather(call: Call, a: int, b: int) -> None:
    values = call.weights[0].rows(call.tables.rows[a:b, 0])
    np.multiply(values, np.float32(call.params["scale"]), out=call.output[a:b])


def rmsnorm(call: Call, a: int, b: int) -> None:
    out = call.output[a:b]
    _norm(call, call.inputs[0][a:b], int(call.params["columns"]), out)
    if len(call.inputs) > 1:
        np.add(out, call.inputs[1][a:b], out=out)
    gain = call.params.get("gain", 1.0)
    if gain != 1:
        np.multiply(out, np.float32(gain), out=out)


def _norm(call: Call, x: Array, columns: int, out: Array) -> None:
    """RMS norm of each run of `columns` values, times the op's vector if it has one."""
    runs, target = x.reshape(-1, columns), out.reshape(-1, columns)
    mean = np.vecdot(runs, runs) / np.float32(columns)
    scale = np.reciprocal(np.sqrt(mean + np.float32(call.params["eps"])))
    np.multiply(runs, scale[:, None], out=target)
    if call.vectors:
        np.multiply(target, call.vectors[0], out=target)


def rope(call: Call, a: int, b: int) -> None:
    out = call.output[a:b]
    _rotate(call, _part(call.inputs[0][a:b], call.params, "first", out.shape[1]), a, b, out)


def _rotate(call: Call, x: Array, a: int, b: int, out: Array) -> None:
    """Turn the heads of rows a .. b - 1 by their positions, normed before if the op has a vector."""
    width = int(call.params["head_dim"])
    if call.vectors:
        normed = np.empty(x.shape, np.float32)
        _norm(call, x, width, normed)
        x = normed
    pairs = (b - a, x.shape[1] // width, 2, width // 2)
    x, target = x.reshape(pairs), out.reshape(pairs)
    cos, sin = call.fact(("turn", id(call.constants[0])), lambda: _turn(call))
    np.multiply(x, cos[a:b], out=target)
    np.add(target, x[:, :, ::-1] * sin[a:b], out=target)


def _part(x: Array, params: Params, name: str, columns: int) -> Array:
    """So many columns of x, from the one on that a param names (default: the first)."""
    first = int(params.get(name, 0))
    return x[:, first : first + columns]


def _turn(call: Call) -> tuple[Array, Array]:
    """Of each row's position: cos [R, 1, 1, half], and what the other half of the pair counts, [R, 1, 2, half]."""
    turn = call.constants[0].take(call.tables.rows[:, 1], axis=0)
    cos = turn[:, None, None, :, 0].copy()  # a stride of two would slow every product down
    return cos, np.stack([-turn[..., 1], turn[..., 1]], axis=1)[:, None]


def gelu(call: Call, a: int, b: int) -> None:
    out = call.output[a:b]
    gate = _part(call.inputs[0][a:b], call.params, "gate_first", out.shape[1])
    up = _part(call.inputs[1][a:b], call.params, "up_first", out.shape[1])
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


def cast(call: Call, a: int, b: int) -> None:
    np.copyto(call.output[a:b], call.inputs[0][a:b])


def softcap(call: Call, a: int, b: int) -> None:
    cap, out = np.float32(call.params["cap"]), call.output[a:b]
    np.divide(call.inputs[0][a:b], cap, out=out)
    np.tanh(out, out=out)
    np.multiply(out, cap, out=out)


def store(call: Call) -> None:
    k, v, state = call.inputs
    columns, dtype = state.shape[1] // 2, _dtype(call)
    k, v = _part(k, call.params, "k_first", columns), _part(v, call.params, "v_first", columns)
    if call.constants:
        turned = np.empty(k.shape, np.float32)
        _rotate(call, k, 0, len(k), turned)
        k = turned
    if call.params["value_norm"]:
        normed = np.empty(v.shape, np.float32)
        _norm(replace(call, vectors=()), v, int(call.params["head_dim"]), normed)
        v = normed
    at = call.lines()
    state[at, :columns] = k.astype(dtype, copy=False)
    state[at, columns:] = v.astype(dtype, copy=False)


def _dtype(call: Call) -> type[np.floating[Any]]:
    return np.float16 if call.half else np.float32


def last_rows(call: Call) -> None:
    lines = call.fact("last", lambda: call.tables.slots[:, 0] + call.tables.slots[:, 1] - 1)
    np.take(call.inputs[0], lines, axis=0, out=call.output)


def by_meaning(meaning: str, call: Call) -> None:
    """Run an op too small or too rare to need a twin."""
    matrices = [one.values(0, one.shape[0]) for one in call.weights]
    # No meaning has a vector behind a matrix.
    given = Operands(call.inputs, [*call.vectors, *matrices], call.constants)
    params = {**call.params, "offset": 0.0}  # the vectors have it
    call.output[...] = MEANINGS[meaning](params, given, call.tables)


def _product_parts(call: Call, threads: int) -> Sequence[Columns]:
    weight = call.weights[0]
    return product_parts(len(call.output), weight.shape, weight.packed, threads)


def _multiply(call: Call, part: Columns) -> None:
    multiply(call.inputs[0], call.weights[0], call.output, part)


def _step_parts(call: Call, threads: int) -> Sequence[Sequence[Part]]:
    key = ("parts", call.params["causal"], call.params["window"])
    return _shares(call, call.fact(key, lambda: step_parts(call.params, call.tables)), threads)


def _cached_parts(call: Call, threads: int) -> Sequence[Sequence[Part]]:
    key = ("parts", *(call.params.get(name) for name in ("capacity", "window", "canvas")))
    return _shares(call, call.fact(key, lambda: cached_parts(call.params, call.tables)), threads)


def _shares(call: Call, parts: Sequence[Part], threads: int) -> Sequence[Sequence[Part]]:
    work = sum(part.size for part in parts) * int(call.params["heads"]) * int(call.params["head_dim"])
    return shares(parts, work, threads)


def _attend(call: Call, parts: Sequence[Part]) -> None:
    q, k, v = call.inputs
    for part in parts:
        attend(call.params, q, k, v, call.output, part)


def _attend_cached(call: Call, parts: Sequence[Part]) -> None:
    q, state = call.inputs
    half = state.shape[1] // 2
    if call.constants:
        q = _turned(call, q, parts)
    for part in parts:
        attend(call.params, q, state[:, :half], state[:, half:], call.output, part)


def _turned(call: Call, q: Array, parts: Sequence[Part]) -> Array:
    """The queries of the parts, turned as rope does; the other rows are left as they happen to be."""
    turned = np.empty((len(q), call.output.shape[1]), np.float32)
    for part in parts:
        rows = part.queries
        _rotate(call, q[rows, : turned.shape[1]], rows.start, rows.stop, turned[rows])
    return turned


ROW_OPS: Mapping[str, Callable[[Call, int, int], None]] = {
    "gather": gather,
    "rmsnorm": rmsnorm,
    "rope": rope,
    "gelu": gelu,
    "residual": residual,
    "softcap": softcap,
    "cast": cast,
    "expert_sum": expert_sum,
}
PART_OPS: Mapping[str, PartOp] = {
    "matmul": PartOp(_product_parts, _multiply),
    "attention": PartOp(_step_parts, _attend),
    "cached_attention": PartOp(_cached_parts, _attend_cached),
    "expert_matmul": PartOp(expert_parts, multiply_experts),
    "tally": PartOp(tally_parts, tally_tiles),
    "blend": PartOp(blend_parts, blend_soft),
}
WHOLE_OPS: Mapping[str, Callable[[Call], None]] = {
    "store": store,
    "last_rows": last_rows,
    "pick": pick,
}
