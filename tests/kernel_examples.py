"""An op for each row of the kernel table, at a size that fits no tile where the kernel allows that."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from canvas_steps import canvas_step, drawn_noise, drawn_picks, empty_tally, tallied
from gpu_ops import Case, Kept, packed_step, stored_form

from doppler_core.plan.expert_meaning import pairs
from doppler_core.plan.meaning import Tables
from doppler_core.plan.op import Constant, Scalar
from doppler_core.plan.sampling import TOP_LOGPROBS, Sampling, pack
from doppler_core.plan.signature import Signature

Make = Callable[[Signature, Case], Case]


def example(row: Signature) -> Case:
    """An op for the kernel: `columns` of its inputs are a multiple of 32 where it asks for any multiple."""
    step = _steps().get(row.meaning, packed_step([37, 1, 20], dimensions=50))
    columns = 96 if row.multiples else 90
    base = Case(row.meaning, f"{row.file}#{row.entry}", {"columns": columns}, step, columns=columns)
    return MAKERS[row.meaning](row, base)


def _steps() -> Mapping[str, Tables]:
    return {
        "attention": packed_step([150, 3, 90, 1, 1, 60]),
        "cached_attention": packed_step([37, 1, 20], start=[0, 300, 100]),
        "l2norm": packed_step([1] * 3, dimensions=50),
    }


def _x(base: Case, width: int) -> np.ndarray:
    return np.random.default_rng(width).standard_normal((len(base.tables.rows), width), np.float32)


def _plain(row: Signature, base: Case) -> Case:
    return replace(base, inputs=[_x(base, base.columns)])


def _pair(row: Signature, base: Case) -> Case:
    return replace(base, inputs=[_x(base, base.columns)] * 2)


def _gather(row: Signature, base: Case) -> Case:
    read = next(operand.dtypes[0] for operand in row.operands if operand.kind == "weight")
    table = np.ones((len(base.tables.rows), base.columns), np.float32)
    params = {**base.params, "scale": 1.0}
    return replace(base, params=params, weights=[table], weight_types=[(stored_form(read), read)])


def _rmsnorm(row: Signature, base: Case) -> Case:
    weight = np.ones(base.columns, np.float32)
    params = {"columns": base.columns, "eps": 1e-6, "offset": 1}
    return replace(_plain(row, base), params=params, weights=[weight], weight_types=[("f32", "f32")])


def _matmul(row: Signature, base: Case) -> Case:
    read = next(operand.dtypes[0] for operand in row.operands if operand.kind == "weight")
    inner = base.columns * 4
    return replace(
        base,
        params={"columns": 70, "inner": inner},
        inputs=[_x(base, inner)],
        weights=[np.ones((70, inner), np.float32)],
        weight_types=[(stored_form(read), read)],
        columns=70,
    )


def _turning(case: Case, head_dim: int) -> Case:
    """With a norm's weight, and angles of 400 positions."""
    numbers = {"positions": 400, "head_dim": head_dim, "theta": 1e4, "scaling_factor": 1.0}
    return replace(
        case,
        weights=[np.ones(head_dim, np.float32)],
        weight_types=[("f32", "f32")],
        constants=[Constant("turn", "rope", (400, head_dim // 2, 2), numbers)],
    )


def _rope(row: Signature, base: Case) -> Case:
    head = base.columns
    params = {"heads": 2, "head_dim": head, "eps": 1e-6, "offset": 1}
    return _turning(replace(base, params=params, inputs=[_x(base, 2 * head)], columns=2 * head), head)


def _projections(row: Signature, base: Case) -> Case:
    inner = base.columns * 4
    return replace(
        base,
        params={"columns": 70, "inner": inner, "a_rows": 40, "b_rows": 20, "eps": 1e-6, "offset": 1},
        inputs=[_x(base, inner)],
        weights=[np.ones(inner, np.float32), *(np.ones((n, inner), np.float32) for n in (40, 20, 10))],
        weight_types=[("f32", "f32"), *[("q4_k", "q4_k")] * 3],
        columns=70,
    )


def _gated_matmul(row: Signature, base: Case) -> Case:
    product = _matmul(row, base)
    return replace(product, params={**product.params, "up_first": 0}, inputs=[product.inputs[0]] * 2)


def _attention(row: Signature, base: Case) -> Case:
    head = base.columns
    params = {"heads": 2, "kv_heads": 1, "head_dim": head, "scale": 0.1, "window": 0}
    return replace(
        base,
        params={**params, "causal": False, "softcap": 0.0},
        inputs=[_x(base, 2 * head), _x(base, head), _x(base, head)],
        columns=2 * head,
    )


def _store(row: Signature, base: Case) -> Case:
    state = Kept(np.zeros((3 * 40, 4 * 90), np.float32), "f16", 40)
    params = {"heads": 2, "head_dim": 90, "capacity": 40, "value_norm": True, "eps": 1e-6, "offset": 1}
    case = replace(base, params=params, inputs=[_x(base, 180)] * 2, states=[state], changes_state=True)
    return _turning(case, 90)


def _cached_attention(row: Signature, base: Case) -> Case:
    multiple, capacity = row.multiples["head_dim"], 310
    head = base.columns // multiple * multiple
    state = np.random.default_rng(0).standard_normal((3 * capacity, 2 * head), np.float32)
    params = {"heads": 2, "kv_heads": 1, "head_dim": head, "scale": 0.1, "window": 0}
    case = replace(
        base,
        params={**params, "capacity": capacity, "softcap": 0.0},
        inputs=[_x(base, 2 * head)],
        states=[Kept(state, "f16", capacity)],
        columns=2 * head,
    )
    turns = any(operand.name == "table" for operand in row.operands)
    return _turning(case, head) if turns else case


def _softcap(row: Signature, base: Case) -> Case:
    return replace(_plain(row, base), params={"cap": 2.0})


def _sampling(row: Signature, base: Case) -> Case:
    """Three slots whose logits tie, so that a search has to go down to ids."""
    columns = 3000
    logits = np.random.default_rng(0).integers(-9, 9, (3, columns)).astype(np.float32)
    settings = [
        Sampling(temperature=4.0, top_k=1234, top_p=0.9, seed=slot, presence=0.5) for slot in range(3)
    ]
    return replace(
        base,
        params={"columns": columns},
        tables=replace(base.tables, sampling=pack(settings)),
        inputs=[logits],
        columns=1,
        dtype="u32",
        per_sequence=True,
    )


def _adjust(row: Signature, base: Case) -> Case:
    case = _sampling(row, base)
    width = case.inputs[0].shape[1]
    counts = np.random.default_rng(1).integers(0, 3, (3, width)).astype(np.uint32)
    bias, mask = np.zeros((3, width), np.float32), np.zeros((3, -(-width // 32)), np.uint32)
    states = [Kept(counts, "u32"), Kept(bias), Kept(mask, "u32")]
    return replace(case, states=states, columns=width, dtype="f32")


def _logprobs(row: Signature, base: Case) -> Case:
    sampled = np.array([[0], [7], [2999]], np.uint32)
    return replace(_sampling(row, base), states=[Kept(sampled, "u32")], columns=2 + 2 * TOP_LOGPROBS)


def _route(row: Signature, base: Case) -> Case:
    scores = np.random.default_rng(0).integers(-9, 9, (len(base.tables.rows), 300)).astype(np.float32)
    return replace(
        base,
        params={"columns": 300, "chosen": 8, "normalize": False},
        inputs=[scores],
        weights=[np.ones(300, np.float32)],
        weight_types=[("f32", "f32")],
        columns=16,
        dtype="u32",
    )


def _routes(base: Case) -> Kept:
    """Two of three experts for each row: most rows want the same two."""
    rows = len(base.tables.rows)
    experts = np.where(np.arange(rows)[:, None] % 9, [2, 0], [0, 1])
    return Kept(pairs(experts, np.full((rows, 2), 0.5, np.float32)), "u32")


def _expert_matmul(row: Signature, base: Case) -> Case:
    read = next(operand.dtypes[0] for operand in row.operands if operand.kind == "weight")
    params = {"columns": 70, "inner": 288, "experts": 3, "chosen": 2, "parts": 2, "own_inputs": True}
    return replace(
        base,
        params=params,
        inputs=[_x(base, 2 * 288)],
        states=[_routes(base)],
        weights=[np.ones((3, 70, 288), np.float32)],
        weight_types=[(stored_form(read), read)],
        columns=2 * 70,
    )


def _expert_sum(row: Signature, base: Case) -> Case:
    params = {"columns": 90, "chosen": 2}
    return replace(base, params=params, inputs=[_x(base, 180)], states=[_routes(base)])


CANVAS = 40  # positions of a place


def _canvas(base: Case, *states: Kept, **params: Scalar) -> Case:
    """An op on three canvases that changes the last of the states."""
    step = canvas_step([37, 1, 20], starts=[0, 300, 100])
    return replace(
        base, tables=step, params={**params, "capacity": CANVAS}, states=states, changes_state=True
    )


def _soft() -> Kept:
    return Kept(np.random.default_rng(0).standard_normal((3 * CANVAS, 90), np.float32), "f32", CANVAS)


def _words(table: np.ndarray) -> Kept:
    """A state, or a table of a line a row."""
    return Kept(table, "u32", CANVAS if len(table) == 3 * CANVAS else 1)


def _picks(base: Case) -> Kept:
    return _words(drawn_picks(np.random.default_rng(1), len(base.tables.rows), 90))


def _noises() -> Kept:
    return _words(drawn_noise(np.random.default_rng(2), 3 * CANVAS, 90))


def _canvases() -> Kept:
    return _words(np.zeros((3 * CANVAS, 4), np.uint32))


def _recall(row: Signature, base: Case) -> Case:
    return replace(_canvas(base, _soft(), columns=90), changes_state=False)


def _noise(row: Signature, base: Case) -> Case:
    return _canvas(base, _noises(), vocabulary=90)


def _tally(row: Signature, base: Case) -> Case:
    tally = _words(empty_tally(3 * CANVAS, 9000))
    return replace(_canvas(base, tally, columns=9000, first=0), inputs=[_x(base, 9000)])


def _blend(row: Signature, base: Case) -> Case:
    case = _canvas(base, columns=90, inner=300, first=0)
    logits = _x(base, 300)
    tally = _words(tallied(case.tables, logits, 3 * CANVAS, CANVAS))
    return replace(
        case,
        inputs=[logits],
        states=[tally, _soft()],
        weights=[np.ones((300, 90), np.float32)],
        weight_types=[("f16", "f16")],
    )


def _pick(row: Signature, base: Case) -> Case:
    case = _canvas(base, columns=70_000, inner=96, cap=2.0)
    hidden, head = _x(base, 96), np.random.default_rng(3).standard_normal((70_000, 96), np.float32)
    tally = _words(tallied(case.tables, np.tanh(hidden @ head.T / 2) * 2, 3 * CANVAS, CANVAS))
    return replace(
        case,
        inputs=[hidden],
        states=[tally, _noises()],
        weights=[head],
        weight_types=[("f32", "f32")],
        columns=4,
        changes_state=False,
        dtype="u32",
    )


def _soften(row: Signature, base: Case) -> Case:
    return _canvas(base, _picks(base), _soft(), columns=90, scale=3.0)


def _progress(row: Signature, base: Case) -> Case:
    case = _canvas(base, _picks(base), _canvases())
    return replace(case, columns=4, changes_state=False, dtype="u32")


def _accept(row: Signature, base: Case) -> Case:
    return _canvas(base, _picks(base), _noises(), _canvases())


MAKERS: Mapping[str, Make] = {
    "gather": _gather,
    "rmsnorm": _rmsnorm,
    "matmul": _matmul,
    "projections": _projections,
    "gated_matmul": _gated_matmul,
    "rope": _rope,
    "attention": _attention,
    "store": _store,
    "cached_attention": _cached_attention,
    "last_rows": _plain,
    "softcap": _softcap,
    "residual": _pair,
    "gelu": _pair,
    "pool": _plain,
    "cast": _plain,
    "l2norm": _plain,
    "adjust": _adjust,
    "sample": _sampling,
    "draw": _sampling,
    "logprobs": _logprobs,
    "route": _route,
    "expert_matmul": _expert_matmul,
    "expert_sum": _expert_sum,
    "recall": _recall,
    "noise": _noise,
    "tally": _tally,
    "blend": _blend,
    "pick": _pick,
    "soften": _soften,
    "progress": _progress,
    "accept": _accept,
}
