"""Ops that read some rows of a tensor: both executors, whatever buffers the tensor lies in."""

from dataclasses import replace

import numpy as np
import pytest
from gpu_ops import feed, packed_step, read_back, software_gpu, stored_form, tensor
from hypothesis import given
from hypothesis import strategies as st

from doppler_core.device.executor import Executor
from doppler_core.device.limits import check_plan, sections, spans
from doppler_core.device.numpy_executor import NumpyExecutor
from doppler_core.device.wgpu_executor import bind_wgpu
from doppler_core.errors import PlanError
from doppler_core.plan.op import SECTION_ROWS, Kernel, Op, Plan, Section, Value, Weight
from doppler_core.weights.tensor import StorageType, Tensor, row_bytes

INNER, ROWS, STEP = 64, 1000, 4
# The last rows of a tensor are no whole number of anything.
WANTED = (Section(0, ROWS), Section(256, 256), Section(256, 512), Section(512, ROWS - 512), Section(768, 232))
KERNELS: dict[StorageType, str] = {
    "f32": "matmul_f32.wgsl",
    "f16": "matmul_f16w_f32a_broadcast.wgsl",
    "q8_0x8": "matmul_q8_0x8_broadcast.wgsl",
    "q6_k": "matmul_q6_k_gemv.wgsl",
}


@given(
    st.integers(1, 3000),
    st.integers(1, 20),
    st.integers(0, 11),
    st.integers(1, 3000),
    st.sampled_from([1, 4]),
)
def test_spans_are_the_wanted_rows_each_once_and_in_order(
    rows: int, together: int, first: int, count: int, experts: int
) -> None:
    weight = Weight("w", (experts, rows, 32), "f32", "f32")
    total = experts * rows
    begin = min(first, (total - 1) // SECTION_ROWS) * SECTION_ROWS
    wanted = Section(begin, min(count, total - begin))
    cut = sections(weight, together * SECTION_ROWS * row_bytes("f32", 32))
    found = spans(replace(weight, section=wanted), cut)
    read = [cut[one.buffer].first + one.skipped + row for one in found for row in range(one.rows.count)]
    assert read == list(range(wanted.first, wanted.first + wanted.count))
    assert [one.rows.first for one in found] == [
        cut[one.buffer].first + one.skipped - wanted.first for one in found
    ]
    # Where a binding may begin: whole sections into a buffer.
    assert all(one.skipped % SECTION_ROWS == 0 for one in found)


def products(read: StorageType) -> tuple[Plan, dict[str, Tensor], np.ndarray]:
    """A product for each of WANTED, all by one tensor; the tensor's values."""
    stored, draw = stored_form(read), np.random.default_rng(3)
    table = draw.standard_normal((STEP, INNER), np.float32)
    tensors = {
        "x": tensor("x", table),
        "w": tensor("w", draw.standard_normal((ROWS, INNER), np.float32), stored),
    }
    [first] = feed("x", table, False)
    ops = [
        Op(
            "matmul",
            f"product {number}",
            None,
            Kernel(KERNELS[read], "main", ""),
            (first.output,),
            Value(f"{number}", ("T", wanted.count)),
            (Weight("w", (ROWS, INNER), stored, read, wanted),),
            params={"columns": wanted.count, "inner": INNER},
        )
        for number, wanted in enumerate(WANTED)
    ]
    plan = Plan("sections", {"encode": (first, *ops)}, {"encode": tuple(op.output for op in ops)})
    return plan, tensors, table @ read_back(tensors["w"], read).T


def assert_products(executor: Executor, expected: np.ndarray) -> None:
    step = packed_step([STEP])
    found = executor.capture("encode", step.rows, step.slots, [str(number) for number in range(len(WANTED))])
    for number, wanted in enumerate(WANTED):
        # f32 sums of 64 products.
        own = expected[:, wanted.first : wanted.first + wanted.count]
        np.testing.assert_allclose(found[str(number)], own, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("read", KERNELS)
@pytest.mark.parametrize("rows_bound", [256, 512, 2000])
def test_a_gpu_multiplies_by_rows_that_lie_in_any_buffers(read: StorageType, rows_bound: int) -> None:
    plan, tensors, expected = products(read)
    small = replace(software_gpu(), max_binding=rows_bound * row_bytes(read, INNER) + 100)
    assert_products(bind_wgpu(plan, tensors, small, max_rows=STEP, max_slots=1), expected)


@pytest.mark.parametrize("read", KERNELS)
@pytest.mark.parametrize("room", [0, None], ids=["packed", "expanded"])
def test_numpy_multiplies_by_rows_of_what_is_expanded_or_not(read: StorageType, room: int | None) -> None:
    plan, tensors, expected = products(read)
    executor = NumpyExecutor(plan, tensors, max_rows=STEP, max_slots=1, room=room)
    assert_products(executor, expected)
    executor.close()


def test_a_kernel_that_binds_its_weight_whole_is_refused() -> None:
    plan, _, _ = products("f32")
    first = plan.phases["encode"][0]
    norm = Weight("n", (ROWS, INNER), "f32", "f32", Section(256, 256))
    op = Op(
        "rmsnorm",
        "norm",
        0,
        Kernel("rmsnorm.wgsl", "main", ""),
        (first.output,),
        Value("y", ("T", INNER)),
        (norm,),
        params={"columns": INNER, "eps": 1e-6, "offset": 0},
    )
    with pytest.raises(PlanError, match=r"norm: rmsnorm.wgsl#main .* needs its weight whole"):
        check_plan(Plan("p", {"encode": (first, op)}, {"encode": (op.output,)}), software_gpu().ability, 4, 1)
