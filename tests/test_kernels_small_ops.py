"""The kernels beside matmul and attention, on the software GPU adapter, against their meaning."""

from dataclasses import replace

import numpy as np
import pytest
from gpu_ops import Case, packed_step, software_gpu, stored_form

from doppler_core.device.limits import sections
from doppler_core.plan.meaning import Tables
from doppler_core.plan.op import Constant, Weight
from doppler_core.weights.tensor import StorageType

# A few f32 roundings, an unfused multiply-add, and the driver's 1/sqrt (9e-8) and tanh (1e-7).
TOLERANCE = 1e-6

STEP = packed_step([5, 1, 11, 48])
ROWS = len(STEP.rows)


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def assert_close(one: Case, tolerance: float = TOLERANCE) -> None:
    found, expected = one.run(), one.expected()
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


@pytest.mark.parametrize("dtype", ["f16", "f32"])
@pytest.mark.parametrize("columns", [1, 7, 768])
def test_gather_scales_the_rows_of_its_ids(dtype: StorageType, columns: int) -> None:
    step = packed_step([3, 14])
    step.rows[:, 0] = np.random.default_rng(1).integers(0, 40, 17)
    table = random(40, columns)
    params = {"scale": 27.712812921102035, "columns": columns}
    assert_close(
        Case(
            "gather",
            "gather.wgsl#main",
            params,
            step,
            weights=[table],
            weight_types=[(stored_form(dtype), dtype)],
            columns=columns,
        )
    )


PACKED_GATHERS: tuple[StorageType, ...] = ("q4_k", "q8_0", "q8_0x8", "q5_0", "q6_k")


@pytest.mark.parametrize("dtype", PACKED_GATHERS)
@pytest.mark.parametrize("columns", [32, 640, 768])
def test_a_packed_table_is_expanded_row_by_row(dtype: StorageType, columns: int) -> None:
    step = packed_step([3, 14])
    step.rows[:, 0] = np.random.default_rng(1).integers(0, 40, 17)
    assert_close(
        Case(
            "gather",
            f"gather_{dtype}.wgsl#main",
            {"scale": 0.5, "columns": columns},
            step,
            weights=[random(40, columns)],
            weight_types=[(stored_form(dtype), dtype)],
            columns=columns,
        )
    )


NORMS: dict[str, StorageType] = {"rmsnorm.wgsl": "f16", "rmsnorm_subgroup.wgsl": "f32"}


@pytest.mark.parametrize("kernel", NORMS)
@pytest.mark.parametrize("rows", [1, 3, 17, 65])
@pytest.mark.parametrize(("columns", "runs"), [(768, 1), (16, 4), (72, 3), (4, 1), (256, 3)])
@pytest.mark.parametrize("offset", [0, 1])
def test_rmsnorm_of_runs_with_a_weight(kernel: str, rows: int, columns: int, runs: int, offset: int) -> None:
    assert_close(norm_case(kernel, packed_step([rows]), columns, runs, weights=1, offset=offset))


@pytest.mark.parametrize("columns", [1, 7, 70])
def test_the_plain_rmsnorm_takes_any_size(columns: int) -> None:
    assert_close(norm_case("rmsnorm.wgsl", STEP, columns, 3, weights=1))


@pytest.mark.parametrize("kernel", NORMS)
@pytest.mark.parametrize("weights", [0, 1])
@pytest.mark.parametrize("residuals", [0, 1])
def test_rmsnorm_with_and_without_weight_and_residual(kernel: str, weights: int, residuals: int) -> None:
    assert_close(norm_case(kernel, STEP, 40, 3, weights, residuals))


def norm_case(
    kernel: str, step: Tables, columns: int, runs: int, weights: int, residuals: int = 0, offset: int = 1
) -> Case:
    rows = len(step.rows)
    return Case(
        "rmsnorm",
        f"{kernel}#main",
        {"eps": 1e-6, "offset": offset, "columns": columns},
        step,
        inputs=[random(rows, runs * columns), *[random(rows, runs * columns, seed=1)] * residuals],
        weights=[random(columns, seed=2)] * weights,
        weight_types=[("f32", NORMS[kernel])] * weights,
        columns=runs * columns,
    )


@pytest.mark.parametrize("kernel", NORMS)
def test_rmsnorm_of_large_and_of_zero_rows(kernel: str) -> None:
    # The residual stream of the real model reaches 1.3e5, squares of it 1.7e10 each.
    x = random(3, 768) * np.array([[1.3e5], [1e-12], [0.0]], np.float32)
    params = {"eps": 1e-6, "offset": 0, "columns": 768}
    one = Case("rmsnorm", f"{kernel}#main", params, packed_step([3]), [x], columns=768)
    found = one.run()
    np.testing.assert_allclose(found, one.expected(), rtol=1e-6, atol=1e-12)
    assert not found[2].any()


@pytest.mark.parametrize("kernel", NORMS)
def test_more_workgroups_than_an_axis_holds(kernel: str) -> None:
    # One workgroup for each run: 70,000 of them are split over y, with a surplus that must write nothing.
    params = {"eps": 1e-6, "offset": 0, "columns": 4}
    assert_close(
        Case("rmsnorm", f"{kernel}#main", params, packed_step([1]), [random(1, 280_000)], columns=280_000)
    )


@pytest.mark.parametrize("columns", [1, 70, 1152])
def test_residual_and_gelu_are_elementwise(columns: int) -> None:
    x, y = 4 * random(ROWS, columns), random(ROWS, columns, seed=1)
    assert_close(Case("residual", "residual.wgsl#main", {"columns": columns}, STEP, [x, y], columns=columns))
    assert_close(Case("gelu", "gelu.wgsl#main", {"columns": columns}, STEP, [x, y], columns=columns))


def test_gelu_of_extreme_gates_is_finite() -> None:
    x = np.array([[-1e4, -30.0, -3.0, 0.0, 3.0, 30.0, 1e4]], np.float32)
    one = Case("gelu", "gelu.wgsl#main", {"columns": 7}, packed_step([1]), [x, np.ones_like(x)], columns=7)
    np.testing.assert_allclose(one.run(), one.expected(), rtol=1e-5, atol=1e-6)


ROPE, ROPE_SUBGROUP = "rope.wgsl#main", "rope_subgroup.wgsl#main"


@pytest.mark.parametrize(
    ("kernel", "heads", "head_dim"),
    [
        *((ROPE, heads, width) for heads, width in ((3, 256), (1, 2), (2, 16), (5, 34))),
        *((ROPE_SUBGROUP, heads, width) for heads, width in ((3, 256), (1, 8), (2, 16), (5, 72))),
    ],
)
def test_rope_turns_by_the_position_of_the_row(kernel: str, heads: int, head_dim: int) -> None:
    numbers = {"positions": 64, "head_dim": head_dim, "theta": 10_000.0, "scaling_factor": 1.0}
    assert_close(
        Case(
            "rope",
            kernel,
            {"heads": heads, "head_dim": head_dim},
            STEP,
            inputs=[random(ROWS, heads * head_dim)],
            constants=[Constant("turn", "rope", (64, head_dim // 2, 2), numbers)],
            columns=heads * head_dim,
        )
    )


@pytest.mark.parametrize("columns", [1, 70, 768])
def test_pool_takes_the_mean_of_each_slot(columns: int) -> None:
    assert_close(
        Case(
            "pool",
            "pool_mean.wgsl#main",
            {"columns": columns},
            STEP,
            [random(ROWS, columns)],
            columns=columns,
        )
    )


@pytest.mark.parametrize("kernel", NORMS)
def test_the_gain_of_a_norm_multiplies_the_sum_with_the_residual(kernel: str) -> None:
    one = norm_case(kernel, STEP, 40, 1, weights=1, residuals=1)
    scaled = replace(one, params={**one.params, "gain": 0.0625})
    assert_close(scaled)
    np.testing.assert_array_equal(
        scaled.run(), one.run() * np.float32(0.0625)
    )  # a power of two rounds nothing


@pytest.mark.parametrize(("columns", "up_columns", "up_first"), [(70, 70, 0), (32, 160, 64), (5, 7, 2)])
def test_gelu_takes_its_columns_of_a_wider_up(columns: int, up_columns: int, up_first: int) -> None:
    x, up = random(ROWS, columns), random(ROWS, up_columns, seed=1)
    params = {"columns": columns, "up_first": up_first}
    assert_close(Case("gelu", "gelu.wgsl#main", params, STEP, [x, up], columns=columns))


@pytest.mark.parametrize(
    ("kernel", "dtype", "heads", "head_dim"),
    [
        *((ROPE, dtype, *size) for dtype in ("f16", "f32") for size in ((3, 256), (1, 2), (2, 34))),
        *((ROPE_SUBGROUP, "f32", *size) for size in ((3, 256), (1, 8), (2, 72))),
    ],
)
@pytest.mark.parametrize("offset", [0, 1])
def test_rope_norms_each_head_before_it_turns_it(
    kernel: str, dtype: StorageType, heads: int, head_dim: int, offset: int
) -> None:
    numbers = {"positions": 64, "head_dim": head_dim, "theta": 10_000.0, "scaling_factor": 1.0}
    assert_close(
        Case(
            "rope",
            kernel,
            {"heads": heads, "head_dim": head_dim, "eps": 1e-6, "offset": offset},
            STEP,
            inputs=[3 * random(ROWS, heads * head_dim)],
            weights=[random(head_dim, seed=1)],
            weight_types=[(stored_form(dtype), dtype)],
            constants=[Constant("turn", "rope", (64, head_dim // 2, 2), numbers)],
            columns=heads * head_dim,
        )
    )


@pytest.mark.parametrize("cap", [0.5, 30.0])
@pytest.mark.parametrize("columns", [1, 70, 768])
def test_the_soft_cap_bounds_values_of_any_size(cap: float, columns: int) -> None:
    x = np.float32(40) * random(ROWS, columns)
    x[0, 0] = 1e38
    one = Case("softcap", "softcap.wgsl#main", {"cap": cap}, STEP, [x], columns=columns)
    assert_close(one)
    assert np.abs(one.run()).max() <= cap


def test_the_soft_cap_of_no_number_is_none() -> None:
    """So that who looks for broken logits finds them behind it."""
    x = random(3, 70)
    x[1, 5], x[2, 0], x[0, 3] = np.nan, np.inf, -np.inf
    one = Case("softcap", "softcap.wgsl#main", {"cap": 30.0}, packed_step([3]), [x], columns=70)
    found = one.run()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(x))
    np.testing.assert_allclose(found, one.expected(), rtol=0, atol=30 * TOLERANCE)


@pytest.mark.parametrize("columns", [1, 70, 768])
def test_last_rows_are_those_of_each_slot(columns: int) -> None:
    one = Case("last_rows", "last_rows.wgsl#main", {}, STEP, [random(ROWS, columns)], columns=columns)
    np.testing.assert_array_equal(one.run(), one.expected())


def test_ops_of_as_many_rows_as_sequences_read_the_last_row_of_each() -> None:
    """A gather by the last token, a rotation by the last position."""
    step = packed_step([5, 1, 11], start=[3, 20, 7])
    table = random(17, 8)
    one = Case(
        "gather",
        "gather.wgsl#main",
        {"scale": 1.0, "columns": 8},
        step,
        weights=[table],
        weight_types=[("f32", "f32")],
        columns=8,
        per_sequence=True,
    )
    np.testing.assert_array_equal(one.run(), table[[4, 5, 16]])
    numbers = {"positions": 64, "head_dim": 8, "theta": 10_000.0, "scaling_factor": 1.0}
    assert_close(
        Case(
            "rope",
            "rope.wgsl#main",
            {"heads": 1, "head_dim": 8},
            step,
            inputs=[random(3, 8)],
            constants=[Constant("turn", "rope", (64, 4, 2), numbers)],
            columns=8,
            per_sequence=True,
        )
    )


@pytest.mark.parametrize(("columns", "dimensions"), [(768, 768), (768, 128), (70, 1), (5, 5)])
def test_l2norm_cuts_then_normalises(columns: int, dimensions: int) -> None:
    step = packed_step([1] * 6, dimensions=dimensions)
    one = Case(
        "l2norm", "l2norm.wgsl#main", {"columns": columns}, step, [random(6, columns)], columns=columns
    )
    assert_close(one)
    found = one.run()
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-6)
    assert not found[:, dimensions:].any()


def test_l2norm_of_zeros_is_zero() -> None:
    step = packed_step([1], dimensions=4)
    one = Case("l2norm", "l2norm.wgsl#main", {"columns": 4}, step, [np.zeros((1, 4), np.float32)], columns=4)
    np.testing.assert_array_equal(one.run(), np.zeros((1, 4)))


@pytest.mark.parametrize(
    ("kernel", "dtype"),
    [
        ("matmul_f16w_f32a.wgsl#main", "f16"),
        ("matmul_q8_0.wgsl#main", "q8_0"),
        ("matmul_f32_broadcast.wgsl#main", "f32"),
        ("matmul_q4_k_broadcast.wgsl#main", "q4_k"),
        ("matmul_q8_0x8_broadcast.wgsl#main", "q8_0x8"),
        ("matmul_q8_0x8_broadcast.wgsl#main_one", "q8_0x8"),
    ],
)
def test_a_matmul_weight_in_sections_gives_what_it_gives_whole(kernel: str, dtype: StorageType) -> None:
    one = Case(
        "matmul",
        kernel,
        {"columns": 101, "inner": 64},
        packed_step([3]),
        [random(3, 64)],
        weights=[random(101, 64, seed=1)],
        weight_types=[(stored_form(dtype), dtype)],
        columns=101,
    )
    # Room for the inputs and the output (1,212 bytes), and for a part of the weight only.
    small = replace(software_gpu(), max_binding=1_500)
    assert len(sections(Weight("w", (101, 64), dtype, dtype), small.max_binding)) > 1
    np.testing.assert_array_equal(one.run(small), one.run())


GATHERS = ["gather.wgsl#main", "gather_split8_f16_vec4_f32_out.wgsl#gather_vec4_f32_out"]


@pytest.mark.parametrize("kernel", GATHERS)
@pytest.mark.parametrize("dtype", ["f16", "f32"])
@pytest.mark.parametrize("section", [101, 50, 13, 10])
def test_gather_from_a_table_in_sections(kernel: str, dtype: StorageType, section: int) -> None:
    """In one, three and eight sections, and in more than a dispatch binds; ids at both ends and at a seam."""
    step = packed_step([5])
    step.rows[:, 0] = [0, 100, section - 1, section % 101, 77]
    one = Case(
        "gather",
        kernel,
        {"scale": 1.0, "columns": 32},
        step,
        weights=[random(101, 32)],
        weight_types=[(stored_form(dtype), dtype)],
        columns=32,
    )
    weight = Weight("w", (101, 32), dtype, dtype)
    small = replace(software_gpu(), max_binding=section * weight.resident_bytes // 101)
    assert len(sections(weight, small.max_binding)) == -(-101 // section)
    np.testing.assert_array_equal(one.run(small), one.expected())
