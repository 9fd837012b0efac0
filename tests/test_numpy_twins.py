"""The NumPy executor's twins against the meanings they speed up."""

from pathlib import Path

import numpy as np
import pytest
from gpu_ops import packed_step
from hypothesis import given, settings
from hypothesis import strategies as st
from steps import tables

from doppler_core.device import numpy_products
from doppler_core.device.numpy_call import Call
from doppler_core.device.numpy_ops import PART_OPS, ROW_OPS, WHOLE_OPS
from doppler_core.device.numpy_products import FEW_ROWS, product_parts
from doppler_core.device.numpy_weights import Expanded, Packed
from doppler_core.plan.constants import rope as rope_table
from doppler_core.plan.meaning import MEANINGS
from doppler_core.plan.op import Scalar
from doppler_core.plan.operands import Operands, Tables
from doppler_core.weights.storage import store, to_f32
from doppler_core.weights.tensor import Tensor

# f32 sums of up to 2,000 terms in another order, and tanh by another route.
TOLERANCE = 2e-5

LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=4)


def made(lengths: list[int], seed: int = 0) -> tuple[Tables, np.random.Generator]:
    draw = np.random.default_rng(seed)
    return Tables(*tables([draw.integers(0, 50, length).tolist() for length in lengths], 8)), draw


def close(found: np.ndarray, expected: np.ndarray) -> bool:
    return bool(np.abs(found - expected).max() <= TOLERANCE * max(1.0, float(np.abs(expected).max())))


def run_parts(meaning: str, call: Call, threads: int = 1) -> int:
    """Run an op of parts; how many there were."""
    parts = PART_OPS[meaning].parts(call, threads)
    for part in parts:
        PART_OPS[meaning].run(call, part)
    return len(parts)


def attention_params(heads: tuple[int, int], **others: Scalar) -> dict[str, Scalar]:
    return {"heads": heads[0], "kv_heads": heads[1], "head_dim": 8, "scale": 0.3, **others}


HEADS = st.sampled_from([(4, 1), (4, 2), (2, 2)])
SOFTCAPS = st.sampled_from([0.0, 5.0])


@settings(max_examples=25)
@given(LENGTHS, st.sampled_from([0, 6, 17]), st.booleans(), SOFTCAPS, HEADS)
def test_attention_has_its_meaning(
    lengths: list[int], window: int, causal: bool, softcap: float, heads: tuple[int, int]
) -> None:
    step, draw = made(lengths)
    count = len(step.rows)
    params = attention_params(heads, window=window, causal=causal, softcap=softcap)
    inputs = [
        draw.standard_normal((count, width * 8), dtype=np.float32) * 3
        for width in (heads[0], heads[1], heads[1])
    ]
    call = Call(params, inputs, np.full((count, heads[0] * 8), np.nan, np.float32), [], [], [], step)
    run_parts("attention", call)
    assert close(call.output, MEANINGS["attention"](params, Operands(inputs), step))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [0, 64])
def test_attention_splits_long_sequences_without_a_seam(causal: bool, window: int) -> None:
    step, draw = made([700])
    params = attention_params((1, 1), window=window, causal=causal, softcap=0.0)
    inputs = [draw.standard_normal((700, 8), dtype=np.float32) for _ in range(3)]
    call = Call(params, inputs, np.empty((700, 8), np.float32), [], [], [], step)
    assert run_parts("attention", call, threads=2) == 3
    assert close(call.output, MEANINGS["attention"](params, Operands(inputs), step))


@st.composite
def cached_steps(draw: st.DrawFn) -> tuple[Tables, int, int]:
    """A step on states whose rings may have turned; the window and the capacity."""
    window = draw(st.sampled_from([0, 1, 3, 8]))
    chunk = draw(st.integers(1, 8))
    capacity = window + chunk if window else 40
    lengths = draw(st.lists(st.integers(1, chunk), min_size=1, max_size=4))
    latest = 60 if window else capacity - chunk
    starts = [draw(st.integers(0, latest)) for _ in lengths]
    places = draw(st.permutations(range(4)))[: len(lengths)]
    return packed_step(lengths, starts, places=places), window, capacity


@settings(max_examples=60)
@given(cached_steps(), SOFTCAPS, HEADS, st.sampled_from(["causal", "of sequences", "canvas"]))
def test_cached_attention_has_its_meaning(
    step: tuple[Tables, int, int], softcap: float, heads: tuple[int, int], kind: str
) -> None:
    whole, window, capacity = step
    own = whole.of_sequences() if kind == "of sequences" else whole
    draw = np.random.default_rng(1)
    seen: dict[str, Scalar] = {"window": window, "capacity": capacity, "canvas": kind == "canvas"}
    params = attention_params(heads, softcap=softcap, **seen)
    q = draw.standard_normal((len(own.rows), heads[0] * 8), dtype=np.float32)
    state = draw.standard_normal((4 * capacity, 2 * heads[1] * 8), dtype=np.float32)
    call = Call(params, [q, state], np.full(q.shape, np.nan, np.float32), [], [], [], own)
    run_parts("cached_attention", call)
    assert close(call.output, MEANINGS["cached_attention"](params, Operands([q, state]), own))


@pytest.mark.parametrize("canvas", [False, True])
def test_cached_attention_splits_a_long_chunk_without_a_seam(canvas: bool) -> None:
    draw = np.random.default_rng(2)
    step = packed_step([600], 900, places=[1])
    params = attention_params((2, 1), window=100, capacity=700, softcap=0.0, canvas=canvas)
    q, state = (draw.standard_normal(shape, dtype=np.float32) for shape in ((600, 16), (1400, 16)))
    call = Call(params, [q, state], np.empty_like(q), [], [], [], step)
    assert run_parts("cached_attention", call, threads=2) == 3
    assert close(call.output, MEANINGS["cached_attention"](params, Operands([q, state]), step))


@settings(max_examples=30)
@given(cached_steps(), st.booleans(), st.booleans())
def test_store_has_its_meaning_and_rounds_as_its_state_does(
    step: tuple[Tables, int, int], value_norm: bool, half: bool
) -> None:
    whole, _, capacity = step
    draw = np.random.default_rng(3)
    k, v = (draw.standard_normal((len(whole.rows), 16), dtype=np.float32) for _ in range(2))
    state = draw.standard_normal((4 * capacity, 32)).astype(np.float16).astype(np.float32)
    params = {"head_dim": 8, "capacity": capacity, "value_norm": value_norm, "eps": 1e-6}
    expected = MEANINGS["store"](params, Operands([k, v, state]), whole)
    WHOLE_OPS["store"](Call(params, [k, v, state], state, [], [], [], whole, half=half))
    if half:
        assert np.array_equal(state, state.astype(np.float16).astype(np.float32))
        np.testing.assert_allclose(state, expected, rtol=2.0**-11, atol=1e-6)  # half a unit in the last place
    else:
        assert close(state, expected)


@given(LENGTHS)
def test_last_rows_have_their_meaning(lengths: list[int]) -> None:
    step, draw = made(lengths)
    x = draw.standard_normal((len(step.rows), 6), dtype=np.float32)
    call = Call({}, [x], np.empty((len(lengths), 6), np.float32), [], [], [], step)
    WHOLE_OPS["last_rows"](call)
    np.testing.assert_array_equal(call.output, MEANINGS["last_rows"]({}, Operands([x]), step))


ROW_CASES = {
    "rmsnorm": (1, {"columns": 8}, "vector"),
    "rmsnorm without weight": (1, {"columns": 8}, ""),
    "rmsnorm with residual and gain": (2, {"columns": 8, "gain": 0.25}, "vector"),
    "rope": (1, {"head_dim": 8, "heads": 2}, "table"),
    "rope of normed heads": (1, {"head_dim": 8, "heads": 2}, "vector table"),
    "gelu": (2, {}, ""),
    "gelu of part of up": (2, {"up_first": 3}, "wide"),
    "residual": (2, {}, ""),
    "softcap": (1, {"cap": 0.7}, ""),
    "gather": (0, {"scale": 2.0}, "rows"),
}


@settings(max_examples=40)
@given(LENGTHS, st.sampled_from(sorted(ROW_CASES)))
def test_row_twins_have_the_meaning_over_any_ranges(lengths: list[int], which: str) -> None:
    step, draw = made(lengths)
    count, meaning = len(step.rows), which.split()[0]
    inputs, own, reads = ROW_CASES[which]
    params = {"eps": 1e-6, "offset": 1.0, **own}  # type: ignore[dict-item]
    widths = [16, 20 if "wide" in reads else 16]
    values = [draw.standard_normal((count, width), dtype=np.float32) for width in widths[:inputs]]
    weight = draw.standard_normal((50, 16) if "rows" in reads else 8, dtype=np.float32)
    table = rope_table({"positions": 64, "head_dim": 8, "theta": 1e4, "scaling_factor": 1.0})
    constants = [table] if "table" in reads else []
    call = Call(
        params,
        values,
        np.full((count, 16), np.nan, np.float32),
        [Expanded(weight)] if "rows" in reads else [],
        [weight + np.float32(1)] if "vector" in reads else [],
        constants,
        step,
    )
    middle = count // 2
    for start, stop in ((middle, count), (0, middle)):
        ROW_OPS[meaning](call, start, stop)
    operands = Operands(values, [weight] if "rows" in reads or "vector" in reads else [], constants)
    assert close(call.output, MEANINGS[meaning](params, operands, step))


@settings(max_examples=60)
@given(
    st.one_of(st.integers(1, FEW_ROWS), st.integers(FEW_ROWS + 1, 80)),
    st.integers(1, 300),
    st.integers(1, 40),
    st.integers(1, 5),
    st.sampled_from([1, 200, 3000, 1_000_000]),
)
def test_products_of_any_size_in_any_parts_are_products(
    rows: int, columns: int, inner: int, threads: int, small: int
) -> None:
    draw = np.random.default_rng(rows)
    x, w = (draw.standard_normal(shape, dtype=np.float32) for shape in ((rows, inner), (columns, inner)))
    call = Call({}, [x], np.full((rows, columns), np.nan, np.float32), [Expanded(w)], [], [], made([1])[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numpy_products, "SMALL", small)
        patch.setattr(numpy_products, "LEAST", 64)
        patch.setattr(numpy_products, "LARGE", 256)
        product_parts.cache_clear()
        run_parts("matmul", call, threads)
    product_parts.cache_clear()
    assert close(call.output, MEANINGS["matmul"]({}, Operands([x], [w]), call.tables))


def test_a_small_product_has_one_part_and_a_large_one_several_for_each_thread() -> None:
    small, large = (256, 640), (262_144, 640)
    assert len(product_parts(1, small, False, 2)) == 1
    assert len(product_parts(1, large, False, 2)) == 8
    assert len(product_parts(1024, large, False, 2)) == 2
    assert len(product_parts(1024, large, False, 1)) == 1


def test_a_packed_weight_multiplies_like_its_expansion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(3)
    values = draw.standard_normal((70, 300), dtype=np.float32)
    data = store(values, "q8_0", "w").reshape(-1)
    packed = Packed(Tensor("w", (70, 300), "q8_0", data, tmp_path))
    monkeypatch.setattr(numpy_products, "BLOCK_BYTES", 4 * 300 * 32)  # three blocks, the last short
    product_parts.cache_clear()
    x = draw.standard_normal((5, 300), dtype=np.float32)
    outputs, parts = [], []
    for weight in (packed, Expanded(to_f32(packed.tensor))):
        call = Call({}, [x], np.empty((5, 70), np.float32), [weight], [], [], made([5])[0])
        parts.append(run_parts("matmul", call))
        outputs.append(call.output)
    assert close(*outputs)
    assert parts == [3, 1]
    product_parts.cache_clear()
