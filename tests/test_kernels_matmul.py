"""Every matmul kernel on the software GPU adapter against the meaning, at sizes that fit no tile."""

import re
from dataclasses import replace

import numpy as np
import pytest
from gpu_ops import Case, packed_step, stored_form

from doppler_core.errors import PlanError
from doppler_core.manifest.kernel_text import kernel_text
from doppler_core.plan.kernel_tables.f16 import TWINS
from doppler_core.plan.kernels import SIGNATURES
from doppler_core.weights.tensor import StorageType

# f32 sums of up to 1,536 products in another order than BLAS, whose own error is of this size: about
# sqrt(K) * 2^-24 of the largest sum, so 2.4e-6; 4e-6 leaves room for an unlucky draw.
TOLERANCE = 4e-6

PLAIN: dict[str, StorageType] = {
    "matmul_f16w_f32a.wgsl": "f16",
    "matmul_f32.wgsl": "f32",
    "fused_matmul_q4_batched_multicol_shared.wgsl": "q4_k",
    "matmul_q8_0.wgsl": "q8_0",
    "matmul_q5_0.wgsl": "q5_0",
    "matmul_q6_k.wgsl": "q6_k",
}
DENSE_GEMV = "matmul_gemv_subgroup.wgsl"
PACKED_GEMV: dict[str, StorageType] = {
    "fused_matmul_q4.wgsl#main_gemv": "q4_k",
    "matmul_q8_0_gemv.wgsl#main": "q8_0",
    "matmul_q5_0_gemv.wgsl#main": "q5_0",
    "matmul_q6_k_gemv.wgsl#main": "q6_k",
}
BROADCAST: dict[str, StorageType] = {
    "matmul_f16w_f32a_broadcast.wgsl": "f16",
    "matmul_f32_broadcast.wgsl": "f32",
    "matmul_q4_k_broadcast.wgsl": "q4_k",
    "matmul_q8_0x8_broadcast.wgsl": "q8_0x8",
    "matmul_q5_0_broadcast.wgsl": "q5_0",
    "matmul_q6_k_broadcast.wgsl": "q6_k",
}


def case(kernel: str, dtype: StorageType, rows: int, columns: int, inner: int) -> Case:
    rng = np.random.default_rng(rows + columns + inner)
    return Case(
        "matmul",
        kernel if "#" in kernel else f"{kernel}#main",
        {"columns": columns, "inner": inner},
        packed_step([rows]),
        inputs=[rng.standard_normal((rows, inner), np.float32)],
        weights=[rng.standard_normal((columns, inner), np.float32) / np.float32(np.sqrt(inner))],
        weight_types=[(stored_form(dtype), dtype)],
        columns=columns,
    )


def assert_close(found: np.ndarray, expected: np.ndarray, tolerance: float = TOLERANCE) -> None:
    assert np.isfinite(found).all()
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


def test_these_are_all_matmul_kernels() -> None:
    known = {*PLAIN, *BROADCAST, DENSE_GEMV, *(kernel.split("#")[0] for kernel in PACKED_GEMV)}
    known |= {TWINS[file] for file in known if file in TWINS}  # test_kernels_f16.py
    assert known == {row.file for row in SIGNATURES.values() if row.meaning == "matmul"}


@pytest.mark.parametrize("kernel", PLAIN)
@pytest.mark.parametrize(
    ("rows", "columns", "inner"),
    [(1, 1, 1), (1, 70, 33), (3, 5, 30), (17, 64, 384), (65, 130, 1152), (64, 64, 16), (2, 257, 258)],
)
def test_a_plain_kernel_takes_any_size(kernel: str, rows: int, columns: int, inner: int) -> None:
    one = case(kernel, PLAIN[kernel], rows, columns, inner)
    assert_close(one.run(), one.expected())


@pytest.mark.parametrize("entry", ["main_vec4", "main_multicol"])
@pytest.mark.parametrize("dtype", ["f16", "f32"])
@pytest.mark.parametrize(
    ("rows", "columns", "inner"), [(1, 1, 4), (1, 70, 36), (1, 33, 640), (3, 5, 260), (1, 1030, 1152)]
)
def test_a_dense_gemv_takes_few_rows_of_any_columns(
    entry: str, dtype: StorageType, rows: int, columns: int, inner: int
) -> None:
    one = case(f"{DENSE_GEMV}#{entry}", dtype, rows, columns, inner)
    assert_close(one.run(), one.expected())


ONE_ROW_KERNELS = [
    *((f"{kernel}#main_one", dtype) for kernel, dtype in BROADCAST.items()),
    ("matmul_f16w_f32a_broadcast.wgsl#main_one", "f32"),
    ("matmul_f32_broadcast.wgsl#main_one", "f16"),
]


@pytest.mark.parametrize(("kernel", "dtype"), ONE_ROW_KERNELS)
@pytest.mark.parametrize(
    # Q8_0, Q5_0 and Q6_K blocks begin at every half-word of the 64 bits that are loaded.
    ("rows", "columns", "inner"),
    [(1, 1, 32), (1, 70, 96), (1, 33, 640), (3, 65, 1152), (9, 31, 256), (2, 40, 2048)],
)
def test_a_broadcast_kernel_takes_rows_one_by_one(
    kernel: str, dtype: StorageType, rows: int, columns: int, inner: int
) -> None:
    one = case(kernel, dtype, rows, columns, inner)
    assert_close(one.run(), one.expected())


@pytest.mark.parametrize(("kernel", "dtype"), ONE_ROW_KERNELS)
def test_what_a_row_gives_does_not_depend_on_its_mates(kernel: str, dtype: StorageType) -> None:
    whole = case(kernel, dtype, 5, 70, 256)
    alone = replace(whole, tables=packed_step([1]), inputs=[whole.inputs[0][3:4]])
    np.testing.assert_array_equal(alone.run()[0], whole.run()[3])


@pytest.mark.parametrize(("columns", "threads"), [(64, 4), (32, 8), (256, 1), (1, 256), (5, 16)])
def test_the_columns_and_threads_of_a_workgroup_may_be_chosen(columns: int, threads: int) -> None:
    one = case(f"{DENSE_GEMV}#main_multicol", "f16", 2, 131, 644)
    overrides = {"MULTICOL_COLS_PER_WG": columns, "MULTICOL_THREADS_PER_COL": threads}
    assert_close(replace(one, overrides=overrides).run(), one.expected())


@pytest.mark.parametrize(("columns", "threads"), [(64, 8), (32, 6), (0, 8)])
def test_a_workgroup_that_would_sum_wrongly_is_refused(columns: int, threads: int) -> None:
    one = case(f"{DENSE_GEMV}#main_multicol", "f16", 1, 70, 64)
    overrides = {"MULTICOL_COLS_PER_WG": columns, "MULTICOL_THREADS_PER_COL": threads}
    with pytest.raises(PlanError, match=r"expected a power of two of threads, and at most 256"):
        replace(one, overrides=overrides).run()


@pytest.mark.parametrize("kernel", PACKED_GEMV)
@pytest.mark.parametrize(
    # 640 and 1,152 are whole sub-blocks, and no whole blocks of 256.
    ("rows", "columns", "inner"),
    [(1, 1, 32), (1, 70, 256), (1, 33, 640), (3, 17, 1152), (2, 16, 2048)],
)
def test_a_packed_gemv_takes_few_rows_of_any_columns(
    kernel: str, rows: int, columns: int, inner: int
) -> None:
    one = case(kernel, PACKED_GEMV[kernel], rows, columns, inner)
    assert_close(one.run(), one.expected())


@pytest.mark.parametrize("kernel", ["matmul_q5_0.wgsl", "matmul_q6_k.wgsl"])
def test_packed_weights_are_expanded_to_the_last_bit(kernel: str) -> None:
    """An input of one 1 picks a weight of every row: each value of a block in turn."""
    weights = np.random.default_rng(0).standard_normal((5, 256), np.float32)
    one = replace(
        case(kernel, PLAIN[kernel], 256, 5, 256), inputs=[np.eye(256, dtype=np.float32)], weights=[weights]
    )
    # One f32 rounding of scale * (q - bias), in the order of the factors.
    np.testing.assert_allclose(one.run(), one.expected(), rtol=2**-23)


@pytest.mark.parametrize("kernel", BROADCAST)
@pytest.mark.parametrize(
    ("rows", "columns", "inner"),
    # Around its tiles of 8 rows and 64 columns.
    [
        (1, 1, 32),
        (3, 70, 64),
        (8, 33, 384),
        (9, 32, 384),
        (16, 34, 96),
        (17, 31, 384),
        (32, 65, 1152),
        (34, 40, 1152),
        (65, 130, 1536),
    ],
)
def test_a_broadcast_kernel_takes_any_rows_and_columns(
    kernel: str, rows: int, columns: int, inner: int
) -> None:
    one = case(kernel, BROADCAST[kernel], rows, columns, inner)
    assert_close(one.run(), one.expected())


@pytest.mark.parametrize("kernel", BROADCAST)
def test_one_row_is_made_by_the_entry_for_one_row(kernel: str) -> None:
    one = case(kernel, BROADCAST[kernel], 1, 70, 256)
    np.testing.assert_array_equal(one.run(), replace(one, kernel=f"{kernel}#main_one").run())


@pytest.mark.parametrize("kernel", BROADCAST)
def test_no_loop_of_a_broadcast_kernel_is_bounded_by_a_uniform(kernel: str) -> None:
    """Mesa writes such a bound into the kernel, and optimises that anew each time it is bound: 50 ms of a large kernel."""
    conditions = re.findall(r"for \([^;]*;([^;]*);", kernel_text(kernel))
    assert conditions
    assert not [each for each in conditions if "params." in each.replace("bound(params.", "")]


@pytest.mark.parametrize("kernel", ["matmul_f16w_f32a.wgsl", "matmul_f16w_f32a_broadcast.wgsl"])
def test_f16_weights_keep_their_subnormals(kernel: str) -> None:
    # The smallest f16 is 2^-24; a device that flushes subnormals to zero would give zeros.
    weight = np.ldexp(np.arange(1, 33, dtype=np.float32), -24).reshape(1, 32)
    one = Case(
        "matmul",
        f"{kernel}#main",
        {"columns": 1, "inner": 32},
        packed_step([32]),
        inputs=[np.eye(32, dtype=np.float32)],
        weights=[weight],
        weight_types=[("f16", "f16")],
        columns=1,
    )
    np.testing.assert_array_equal(one.run()[:, 0], weight[0])


@pytest.mark.parametrize("kernel", ["matmul_f32.wgsl", "matmul_f32_broadcast.wgsl"])
def test_the_rows_of_a_matmul_behind_the_pooling_are_the_sequences(kernel: str) -> None:
    rng = np.random.default_rng(0)
    one = Case(
        "matmul",
        f"{kernel}#main",
        {"columns": 40, "inner": 32},
        packed_step([1] * 5),
        inputs=[rng.standard_normal((5, 32), np.float32)],
        weights=[rng.standard_normal((40, 32), np.float32)],
        weight_types=[("f32", "f32")],
        columns=40,
        per_sequence=True,
    )
    assert_close(one.run(), one.expected())


@pytest.mark.parametrize(
    ("stored", "read"), [("q4_k", "f16"), ("q8_0", "f16"), ("bf16", "f32"), ("f32", "f16")]
)
def test_a_weight_is_turned_into_the_type_its_kernel_reads(stored: StorageType, read: StorageType) -> None:
    kernel = "matmul_f16w_f32a.wgsl" if read == "f16" else "matmul_f32.wgsl"
    rng = np.random.default_rng(0)
    one = Case(
        "matmul",
        f"{kernel}#main",
        {"columns": 9, "inner": 384},
        packed_step([4]),
        inputs=[rng.standard_normal((4, 384), np.float32)],
        weights=[rng.standard_normal((9, 384), np.float32)],
        weight_types=[(stored, read)],
        columns=9,
    )
    assert_close(one.run(), one.expected())
