"""The NumPy executor's twins of a mixture of experts, against their meanings: whoever wants which expert."""

from pathlib import Path

import numpy as np
import pytest
from gpu_ops import packed_step
from hypothesis import given, settings
from hypothesis import strategies as st

from doppler_core.device import numpy_experts, numpy_products
from doppler_core.device.numpy_call import Call
from doppler_core.device.numpy_ops import PART_OPS, ROW_OPS
from doppler_core.device.numpy_weights import Expanded, Packed
from doppler_core.plan.expert_meaning import pairs
from doppler_core.plan.meaning import MEANINGS
from doppler_core.plan.operands import Operands
from doppler_core.weights.storage import store, to_f32
from doppler_core.weights.tensor import StorageType, Tensor

EXPERTS = 6
# f32 sums of up to 300 products in another order.
TOLERANCE = 2e-5


def close(found: np.ndarray, expected: np.ndarray) -> bool:
    return bool(np.abs(found - expected).max() <= TOLERANCE * np.abs(expected).max())


def routes_of(rows: int, chosen: int, which: str, draw: np.random.Generator) -> np.ndarray:
    """Routes to experts: any, the same ones for every row, or never the last ones."""
    among = chosen if which == "same" else EXPERTS - 1 if which == "not the last" else EXPERTS
    experts = np.stack([draw.permutation(among)[:chosen] for _ in range(rows)])
    return pairs(experts, draw.random((rows, chosen), np.float32))


@settings(max_examples=40)
@given(
    st.sampled_from([1, 2, 9, 257]),
    st.integers(1, 4),
    st.sampled_from(["any", "same", "not the last"]),
    st.sampled_from([(1, False), (2, False), (1, True)]),
    st.sampled_from(["f32", "f16", "q4_k"]),
    st.sampled_from([1, 3]),
    st.sampled_from([1, 1 << 20]),
)
def test_a_product_with_each_of_a_rows_experts(
    rows: int, chosen: int, which: str, form: tuple[int, bool], dtype: StorageType, threads: int, tile: int
) -> None:
    (parts, own), draw = form, np.random.default_rng(rows)
    columns, inner = 58, 300  # of q4_k more than a block, and less than two
    values = draw.standard_normal((EXPERTS * columns, inner), np.float32)
    data = store(values, dtype, "w").reshape(-1)
    packed = Packed(Tensor("w", (EXPERTS, columns, inner), dtype, data, Path("w")))
    x = draw.standard_normal((rows, inner * (chosen if own else 1)), np.float32)
    inputs = [x, routes_of(rows, chosen, which, draw)]
    params = {
        "columns": columns, "inner": inner, "experts": EXPERTS, "chosen": chosen, "parts": parts, "own_inputs": own,
    }  # fmt: skip
    matrices = to_f32(packed.tensor)
    step = packed_step([rows])
    expected = MEANINGS["expert_matmul"](
        params, Operands(inputs, [matrices.reshape(EXPERTS, columns, inner)]), step
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numpy_experts, "BLOCK_BYTES", 4 * inner * 20)  # several blocks, the last short
        patch.setattr(numpy_experts, "TILE_BYTES", tile)
        patch.setattr(numpy_products, "LEAST", 64)
        for weight in (packed, Expanded(matrices)):
            call = Call(params, inputs, np.full_like(expected, np.nan), [weight], [], [], step)
            for parts in PART_OPS["expert_matmul"].parts(call, threads):
                for part in parts:
                    assert (part.stop - part.first) * inner * 4 <= numpy_experts.BLOCK_BYTES
                PART_OPS["expert_matmul"].run(call, parts)
            assert close(call.output, expected)


def test_only_a_tile_of_one_expert_is_expanded_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    values = draw.standard_normal((EXPERTS * 64, 256), np.float32)
    packed = Packed(
        Tensor("w", (EXPERTS, 64, 256), "q4_k", store(values, "q4_k", "w").reshape(-1), Path("w"))
    )
    expanded: list[int] = []

    def values_of(weight: Packed, start: int, stop: int) -> np.ndarray:
        expanded.append(stop - start)
        return to_f32(weight.tensor, start, stop)

    monkeypatch.setattr(Packed, "values", values_of)
    monkeypatch.setattr(numpy_experts, "BLOCK_BYTES", 4 * 256 * 32)
    monkeypatch.setattr(numpy_experts, "TILE_BYTES", 4 * 256 * 16)
    inputs = [draw.standard_normal((5, 256), np.float32), pairs(np.array([[3, 1]] * 5), np.ones((5, 2)))]
    params = {"columns": 64, "inner": 256, "experts": EXPERTS, "chosen": 2, "parts": 2, "own_inputs": False}
    call = Call(params, inputs, np.empty((5, 128), np.float32), [packed], [], [], packed_step([5]))
    for part in PART_OPS["expert_matmul"].parts(call, 2):
        PART_OPS["expert_matmul"].run(call, part)
    assert expanded == [16] * 8  # two experts, two blocks of two tiles each, once for all five rows


@pytest.mark.parametrize("rows", [2, 257])
def test_what_the_experts_gave_is_added_up_over_any_ranges(rows: int) -> None:
    draw = np.random.default_rng(rows)
    inputs = [draw.standard_normal((rows, 3 * 50), np.float32), routes_of(rows, 3, "any", draw)]
    params = {"columns": 50, "chosen": 3}
    expected = MEANINGS["expert_sum"](params, Operands(inputs), packed_step([rows]))
    call = Call(params, inputs, np.full_like(expected, np.nan), [], [], [], packed_step([rows]))
    for start, stop in ((rows // 2, rows), (0, rows // 2)):
        ROW_OPS["expert_sum"](call, start, stop)
    assert close(call.output, expected)
