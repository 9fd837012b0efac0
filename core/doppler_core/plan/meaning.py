"""What each op means, in plain NumPy: the oracle that every kernel and every faster twin is tested against.

A meaning takes the op's params, its inputs, weights (f32) and constants, and the step's tables, and gives the
output in f32; a state is an input and an output like any other, whole. It favours being read over being fast.
R is T (rows) or S (sequences): an op of S rows is given each slot's last line as `rows`. Formulas: Gemma 3 and 4.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from doppler_core.plan import canvas_meaning, expert_meaning, sampling_meaning
from doppler_core.plan.operands import Array, Operands, Params, Table, Tables


def gather(params: Params, given: Operands, tables: Tables) -> Array:
    """out[t] = table[id of t] * scale. table [V, columns] -> [T, columns]."""
    return given.weights[0][tables.rows[:, 0]] * np.float32(params["scale"])


def rmsnorm(params: Params, given: Operands, tables: Tables) -> Array:
    """Root-mean-square norm of each run of `columns` values, times (offset + weight), plus a residual if given.

    x [R, runs * columns], weight [columns] or none -> [R, runs * columns]; `offset` is 1 where the checkpoint
    stores weight - 1 (Gemma 3), else 0. The residual is added after the norm, and `gain` (default 1) multiplies
    the sum.
    """
    x = given.inputs[0]
    normed = _normed(x, params, given.weights)
    if len(given.inputs) > 1:
        normed = normed + given.inputs[1]
    return normed * np.float32(params.get("gain", 1.0))


def _normed(x: Array, params: Params, weights: Sequence[Array] = ()) -> Array:
    """The norm of runs as long as the weight, or of `columns` values."""
    runs = x.reshape(len(x), -1, weights[0].size if weights else int(params["columns"]))
    mean: Array = np.mean(runs * runs, axis=-1, keepdims=True, dtype=np.float32)
    normed: Array = runs * np.reciprocal(np.sqrt(mean + np.float32(params["eps"])))
    if weights:
        normed = normed * (weights[0] + np.float32(params["offset"]))
    return normed.reshape(x.shape)


def matmul(params: Params, given: Operands, tables: Tables) -> Array:
    """out = x W^T. x [R, inner], W [columns, inner] -> [R, columns]."""
    return given.inputs[0] @ given.weights[0].T


def projections(params: Params, given: Operands, tables: Tables) -> Array:
    """Several products of one normed input, side by side. x [R, inner], the norm's weight [inner] (`eps`, `offset` as
    in rmsnorm), matrices [n, inner] -> [R, sum of their n]."""
    weight, *matrices = given.weights
    normed = _normed(given.inputs[0], params, [weight])
    return np.concatenate([normed @ matrix.T for matrix in matrices], -1)


def gated_matmul(params: Params, given: Operands, tables: Tables) -> Array:
    """out = (gelu(gate) * up) W^T. gate [R, n] and up [R, n], of which `inner` columns from 0 and `up_first` (default
    0) on, W [columns, inner] -> [R, columns]."""
    gate, up = given.inputs
    inner = given.weights[0].shape[1]
    gated: Array = _gelu(gate[:, :inner]) * _part(up, params, "up_first", inner)
    return matmul(params, Operands([gated], given.weights), tables)


def rope(params: Params, given: Operands, tables: Tables) -> Array:
    """Rotate pairs (i, i + head_dim/2) of each head by the row's position; with a weight, norm each head before.

    x [R, heads * head_dim], weight [head_dim] or none (`eps`, `offset` as in rmsnorm), constant
    [positions, head_dim/2, 2] holding (cos, sin) -> [R, heads * head_dim].
    """
    x = given.inputs[0]
    if given.weights:
        x = _normed(x, params, given.weights)
    heads = x.reshape(len(x), -1, int(params["head_dim"]))
    half = heads.shape[-1] // 2
    turn = given.constants[0][tables.rows[:, 1]][:, None]  # [R, 1, half, 2]
    cos, sin = turn[..., 0], turn[..., 1]
    first, second = heads[..., :half], heads[..., half:]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], -1).reshape(x.shape)


def visible(params: Params, query: Table, key: Table) -> npt.NDArray[np.bool_]:
    """Which keys a query sees, [queries, keys], from their positions.

    Causal with a window W: the W last keys, itself among them. Not causal: W/2 on each side of it.
    """
    window, back = int(params["window"]), query[:, None].astype(np.int64) - key[None].astype(np.int64)
    if params["causal"]:
        return (back >= 0) & (back < window) if window else back >= 0
    return np.abs(back) <= window // 2 if window else np.ones_like(back, dtype=np.bool_)


def attention(params: Params, given: Operands, tables: Tables) -> Array:
    """softmax(q k^T * scale) v within each slot. q [T, heads * d], k and v [T, kv_heads * d] -> [T, heads * d].

    Key/value head j serves the query heads j*g .. j*g + g - 1, g = heads / kv_heads. `softcap` c > 0 replaces a
    score s by c * tanh(s / c).
    """
    q, k, v = given.inputs
    heads, kv_heads, width = int(params["heads"]), int(params["kv_heads"]), int(params["head_dim"])
    out = np.zeros_like(q)
    for slot, (first, count, *_) in enumerate(tables.slots.tolist()):
        mine = np.flatnonzero(tables.rows[:, 2] == slot)
        keys = slice(first, first + count)
        mask = visible(params, tables.rows[mine, 1], tables.rows[keys, 1])
        for head in range(heads):
            kv = head // (heads // kv_heads)
            span, kv_span = slice(head * width, (head + 1) * width), slice(kv * width, (kv + 1) * width)
            scores = q[mine, span] @ k[keys, kv_span].T * np.float32(params["scale"])
            if params["softcap"]:
                scores = np.float32(params["softcap"]) * np.tanh(scores / np.float32(params["softcap"]))
            scores = np.where(mask, scores, np.float32(-np.inf))
            weight = np.exp(scores - scores.max(-1, keepdims=True))
            out[mine, span] = weight @ v[keys, kv_span] / weight.sum(-1, keepdims=True)
    return out


def store(params: Params, given: Operands, tables: Tables) -> Array:
    """Put each row's key and value side by side into the state, at its place and position.

    k, v [T, n], of which `columns` from `k_first` and `v_first` on (defaults: all, 0); state
    [places * capacity, 2 columns] -> the state. With a constant, k is turned first as rope does, and normed if there
    is a weight. `value_norm` gives each head of v an RMS norm without a weight first (Gemma 4).
    """
    k, v, state = given.inputs
    columns = state.shape[1] // 2
    k, v = _part(k, params, "k_first", columns), _part(v, params, "v_first", columns)
    if given.constants:
        k = rope(params, Operands([k], given.weights, given.constants), tables)
    if params["value_norm"]:
        v = _normed(
            v.reshape(-1, int(params["head_dim"])), {**params, "columns": params["head_dim"]}
        ).reshape(v.shape)
    capacity = int(params["capacity"])
    at = tables.lines(capacity)
    out = state.copy()
    out[at] = np.concatenate([k, v], -1)
    return out


def cached_attention(params: Params, given: Operands, tables: Tables) -> Array:
    """Causal attention over a state's keys and values, the row's own among them. Scores as in `attention`.

    q [R, n], of which the first heads * d columns, state [places * capacity, 2 * kv_heads * d] -> [R, heads * d]. A row
    at position p sees the positions max(0, p - window + 1) .. p of its place, all of 0 .. p for a window of 0. On a
    `canvas` every row sees what the first of its slot's rows sees, and all of the slot's rows (DiffusionGemma). With a
    constant, q is turned first as rope does, and normed if there is a weight.
    """
    q, state = given.inputs
    heads, kv_heads, width = int(params["heads"]), int(params["kv_heads"]), int(params["head_dim"])
    q = q[:, : heads * width]
    if given.constants:
        q = rope(params, Operands([q], given.weights, given.constants), tables)
    capacity, window = int(params["capacity"]), int(params["window"])
    pairs = state.reshape(-1, 2, kv_heads, width)
    out = np.zeros((len(q), heads, width), np.float32)
    for row, place in enumerate(tables.places()):
        first, last = seen_from(params, tables, row)
        seen = np.arange(max(0, first - window + 1) if window else 0, last + 1)
        seen_pairs = pairs[place * capacity + seen % capacity].repeat(heads // kv_heads, axis=2)
        k, v = seen_pairs[:, 0], seen_pairs[:, 1]
        scores = np.einsum("hd,khd->hk", q[row].reshape(heads, width), k) * np.float32(params["scale"])
        if params["softcap"]:
            scores = np.float32(params["softcap"]) * np.tanh(scores / np.float32(params["softcap"]))
        weight = np.exp(scores - scores.max(-1, keepdims=True))
        out[row] = np.einsum("hk,khd->hd", weight / weight.sum(-1, keepdims=True), v)
    flat: Array = out.reshape(len(q), -1)
    return flat


def seen_from(params: Params, tables: Tables, row: int) -> tuple[int, int]:
    """The position whose window a row of `cached_attention` has, and the last position that it sees."""
    if not params.get("canvas", False):
        return int(tables.rows[row, 1]), int(tables.rows[row, 1])
    first, count, *_ = tables.slots[tables.rows[row, 2]].tolist()
    begin = int(tables.rows[first, 1])
    return begin, begin + count - 1


def last_rows(params: Params, given: Operands, tables: Tables) -> Array:
    """Each slot's last row. x [T, n] -> [S, n]."""
    rows: Array = given.inputs[0][tables.slots[:, 0] + tables.slots[:, 1] - 1]
    return rows


def softcap(params: Params, given: Operands, tables: Tables) -> Array:
    """cap * tanh(x / cap). [R, n] -> [R, n]."""
    cap = np.float32(params["cap"])
    out: Array = cap * np.tanh(given.inputs[0] / cap)
    return out


def gelu(params: Params, given: Operands, tables: Tables) -> Array:
    """gelu(gate) * up with the tanh form 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) -> [R, columns].

    Either may be wider: of `gate` the first `columns`, of `up` those from `up_first` (default 0) on.
    """
    gate, up = given.inputs
    columns = int(params.get("columns", gate.shape[1]))
    out: Array = _gelu(gate[:, :columns]) * _part(up, params, "up_first", columns)
    return out


def _part(x: Array, params: Params, name: str, columns: int) -> Array:
    """So many columns of x, from the one on that a param names (default: the first)."""
    first = int(params.get(name, 0))
    part: Array = x[:, first : first + columns]
    return part


def _gelu(x: Array) -> Array:
    inner = np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x * x * x)
    out: Array = np.float32(0.5) * x * (1 + np.tanh(inner))
    return out


def residual(params: Params, given: Operands, tables: Tables) -> Array:
    """out = (a + b) * gain, which is 1 unless said. [R, n] -> [R, n]."""
    out: Array = (given.inputs[0] + given.inputs[1]) * np.float32(params.get("gain", 1.0))
    return out


def cast(params: Params, given: Operands, tables: Tables) -> Array:
    """The same values: what rounds them is the type of the output. [R, n] -> [R, n]."""
    return given.inputs[0]


def pool(params: Params, given: Operands, tables: Tables) -> Array:
    """The mean over each slot's rows. [T, n] -> [S, n]."""
    x = given.inputs[0]
    return np.stack([x[a : a + n].mean(0, dtype=np.float32) for a, n, *_ in tables.slots.tolist()])


def l2norm(params: Params, given: Operands, tables: Tables) -> Array:
    """Unit length over the first `dimensions` values of each slot, zero beyond them. [S, n] -> [S, n]."""
    out = np.zeros_like(given.inputs[0])
    for slot, (_, _, size, *_) in enumerate(tables.slots.tolist()):
        kept = given.inputs[0][slot, :size]
        out[slot, :size] = kept / np.sqrt(np.sum(kept * kept, dtype=np.float32))
    return out


MEANINGS: Mapping[str, Callable[[Params, Operands, Tables], npt.NDArray[Any]]] = {
    "gather": gather,
    "rmsnorm": rmsnorm,
    "matmul": matmul,
    "projections": projections,
    "gated_matmul": gated_matmul,
    "rope": rope,
    "attention": attention,
    "store": store,
    "cached_attention": cached_attention,
    "last_rows": last_rows,
    "softcap": softcap,
    "gelu": gelu,
    "residual": residual,
    "cast": cast,
    "pool": pool,
    "l2norm": l2norm,
    "adjust": sampling_meaning.adjust,
    "sample": sampling_meaning.sample,
    "draw": sampling_meaning.draw,
    "logprobs": sampling_meaning.logprobs,
    "count": sampling_meaning.count,
    "advance": sampling_meaning.advance,
    "route": expert_meaning.route,
    "expert_matmul": expert_meaning.expert_matmul,
    "expert_sum": expert_meaning.expert_sum,
    "seat": canvas_meaning.seat,
    "recall": canvas_meaning.recall,
    "noise": canvas_meaning.noise,
    "tally": canvas_meaning.tally,
    "blend": canvas_meaning.blend,
    "pick": canvas_meaning.pick,
    "soften": canvas_meaning.soften,
    "progress": canvas_meaning.progress,
    "accept": canvas_meaning.accept,
}
