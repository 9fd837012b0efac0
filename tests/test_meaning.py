"""The oracle itself, against small sums done by hand, and the NumPy executor's twins against the oracle."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from steps import tables

from doppler_core.device.numpy_ops import ROW_OPS, Call, attention, attention_parts, matmul
from doppler_core.device.numpy_weights import Expanded, Packed
from doppler_core.plan.constants import rope as rope_table
from doppler_core.plan.meaning import MEANINGS, Operands, Tables, visible
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


def test_rmsnorm_divides_by_the_root_mean_square_and_adds_the_offset() -> None:
    x = np.array([[3.0, 4.0]], np.float32)
    found = MEANINGS["rmsnorm"](
        {"eps": 0.0, "offset": 1.0, "columns": 2}, Operands([x], [np.array([1, 0], np.float32)]), made([1])[0]
    )
    assert np.allclose(found, [[3 / 12.5**0.5 * 2, 4 / 12.5**0.5]])


def test_rope_turns_the_pair_half_a_head_apart() -> None:
    table = rope_table({"positions": 2, "head_dim": 2, "theta": 10.0, "scaling_factor": 1.0})
    step = Tables(*tables([[0, 0]], 8))
    found = MEANINGS["rope"](
        {"heads": 1, "head_dim": 2},
        Operands([np.array([[1, 0], [1, 0]], np.float32)], constants=[table]),
        step,
    )
    assert np.allclose(found, [[1, 0], [np.cos(1), np.sin(1)]])


def test_rope_angles_shrink_with_the_pair_and_the_scaling_factor() -> None:
    table = rope_table({"positions": 9, "head_dim": 4, "theta": 100.0, "scaling_factor": 2.0})
    assert np.allclose(table[8, :, 0], [np.cos(4), np.cos(0.4)])


def test_gelu_is_the_tanh_form() -> None:
    found = MEANINGS["gelu"](
        {"columns": 1}, Operands([np.ones((1, 1), np.float32), np.full((1, 1), 2, np.float32)]), made([1])[0]
    )
    assert found[0, 0] == pytest.approx(2 * 0.841192, abs=1e-6)


@pytest.mark.parametrize(
    ("causal", "window", "seen"),
    [
        (False, 0, [0, 1, 2, 3, 4, 5]),
        (False, 4, [1, 2, 3, 4, 5]),  # two on each side of 3
        (True, 0, [0, 1, 2, 3]),
        (True, 2, [2, 3]),  # the last two, itself among them
    ],
)
def test_a_query_sees_its_window(causal: bool, window: int, seen: list[int]) -> None:
    position = np.arange(6, dtype=np.uint32)
    mask = visible({"causal": causal, "window": window}, position[3:4], position)
    assert np.flatnonzero(mask[0]).tolist() == seen


def test_attention_of_one_slot_does_not_see_another() -> None:
    both, draw = made([3, 2])
    params = {
        "heads": 2,
        "kv_heads": 1,
        "head_dim": 4,
        "scale": 0.5,
        "window": 0,
        "causal": False,
        "softcap": 0.0,
    }
    q, k, v = (draw.standard_normal((5, width), dtype=np.float32) for width in (8, 4, 4))
    found = MEANINGS["attention"](params, Operands([q, k, v]), both)
    alone = MEANINGS["attention"](params, Operands([q[3:], k[3:], v[3:]]), made([2])[0])
    assert np.allclose(found[3:], alone, atol=1e-6)


@settings(deadline=None, max_examples=25)
@given(
    LENGTHS,
    st.sampled_from([0, 6, 17]),
    st.booleans(),
    st.sampled_from([0.0, 5.0]),
    st.sampled_from([(4, 1), (4, 2), (2, 2)]),
)
def test_the_attention_twin_has_the_meaning(
    lengths: list[int], window: int, causal: bool, softcap: float, heads: tuple[int, int]
) -> None:
    step, draw = made(lengths)
    count = len(step.rows)
    params = {
        "heads": heads[0],
        "kv_heads": heads[1],
        "head_dim": 8,
        "scale": 0.3,
        "window": window,
        "causal": causal,
        "softcap": softcap,
    }
    inputs = [
        draw.standard_normal((count, width * 8), dtype=np.float32) * 3
        for width in (heads[0], heads[1], heads[1])
    ]
    call = Call(params, inputs, np.full((count, heads[0] * 8), np.nan, np.float32), [], [], [], step)
    for part in attention_parts(call):
        attention(call, part)
    assert close(call.output, MEANINGS["attention"](params, Operands(inputs), step))


def test_the_attention_twin_splits_long_sequences_without_a_seam() -> None:
    step, draw = made([700])
    params = {
        "heads": 1,
        "kv_heads": 1,
        "head_dim": 4,
        "scale": 1.0,
        "window": 64,
        "causal": False,
        "softcap": 0.0,
    }
    inputs = [draw.standard_normal((700, 4), dtype=np.float32) for _ in range(3)]
    call = Call(params, inputs, np.empty((700, 4), np.float32), [], [], [], step)
    parts = attention_parts(call)
    assert len(parts) == 3
    for part in parts:
        attention(call, part)
    assert close(call.output, MEANINGS["attention"](params, Operands(inputs), step))


@settings(deadline=None, max_examples=15)
@given(LENGTHS, st.sampled_from(["rmsnorm", "rmsnorm with residual", "rope", "gelu", "residual", "gather"]))
def test_row_twins_have_the_meaning_over_any_ranges(lengths: list[int], which: str) -> None:
    step, draw = made(lengths)
    count, meaning = len(step.rows), which.split()[0]
    params = {"eps": 1e-6, "offset": 1.0, "columns": 8, "heads": 2, "head_dim": 8, "scale": 2.0}
    inputs = {"gather": 0, "rope": 1, "rmsnorm": 1}.get(which, 2)
    values = [draw.standard_normal((count, 16), dtype=np.float32) for _ in range(inputs)]
    weight = draw.standard_normal((50, 16) if meaning == "gather" else 8, dtype=np.float32)
    table = rope_table({"positions": 64, "head_dim": 8, "theta": 1e4, "scaling_factor": 1.0})
    reads = meaning in ("gather", "rmsnorm")
    call = Call(
        params,
        values,
        np.full((count, 16), np.nan, np.float32),
        [Expanded(weight)] if meaning == "gather" else [],
        [weight + np.float32(1)] if meaning == "rmsnorm" else [],
        [table] if meaning == "rope" else [],
        step,
    )
    middle = count // 2
    for start, stop in ((middle, count), (0, middle)):
        ROW_OPS[meaning](call, start, stop)
    operands = Operands(values, [weight] if reads else [], [table] if meaning == "rope" else [])
    assert close(call.output, MEANINGS[meaning](params, operands, step))


def test_a_packed_weight_multiplies_like_its_expansion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(3)
    values = draw.standard_normal((70, 300), dtype=np.float32)
    data = store(values, "q8_0", "w").reshape(-1)
    packed = Packed(Tensor("w", (70, 300), "q8_0", data, tmp_path))
    monkeypatch.setattr(
        "doppler_core.device.numpy_weights.BLOCK_BYTES", 4 * 300 * 32
    )  # three blocks, the last short
    x = draw.standard_normal((5, 300), dtype=np.float32)
    outputs = []
    for weight in (packed, Expanded(to_f32(packed.tensor))):
        call = Call({}, [x], np.empty((5, 70), np.float32), [weight], [], [], made([5])[0])
        matmul(call)
        outputs.append(call.output)
    assert close(*outputs)
