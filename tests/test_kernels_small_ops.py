"""The kernels beside matmul and attention, on the software GPU adapter, against their meaning."""

from dataclasses import replace

import numpy as np
import pytest
from gpu_ops import Case, packed_step, software_gpu

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
            weight_types=[(dtype, dtype)],
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


@pytest.mark.parametrize(("heads", "head_dim"), [(3, 256), (1, 2), (2, 16), (5, 34)])
def test_rope_turns_by_the_position_of_the_row(heads: int, head_dim: int) -> None:
    numbers = {"positions": 64, "head_dim": head_dim, "theta": 10_000.0, "scaling_factor": 1.0}
    assert_close(
        Case(
            "rope",
            "rope.wgsl#main",
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
        ("matmul_f16w_f32a.wgsl", "f16"),
        ("matmul_q8_0.wgsl", "q8_0"),
        ("matmul_f32_broadcast.wgsl", "f32"),
        ("matmul_q4_k_broadcast.wgsl", "q4_k"),
    ],
)
def test_a_matmul_weight_in_sections_gives_what_it_gives_whole(kernel: str, dtype: StorageType) -> None:
    one = Case(
        "matmul",
        f"{kernel}#main",
        {"columns": 101, "inner": 64},
        packed_step([3]),
        [random(3, 64)],
        weights=[random(101, 64, seed=1)],
        weight_types=[(dtype, dtype)],
        columns=101,
    )
    # Room for the inputs and the output (1,212 bytes), and for a part of the weight only.
    small = replace(software_gpu(), max_binding=1_500)
    assert len(sections(Weight("w", (101, 64), dtype, dtype), small.max_binding)) > 1
    np.testing.assert_array_equal(one.run(small), one.run())


def test_gather_from_a_table_in_sections() -> None:
    step = packed_step([40])
    step.rows[:, 0] = np.random.default_rng(2).permutation(101)[:40]
    step.rows[:4, 0] = [0, 49, 50, 100]  # both sides of a seam, both ends
    one = Case(
        "gather",
        "gather.wgsl#main",
        {"scale": 1.0, "columns": 32},
        step,
        weights=[random(101, 32)],
        weight_types=[("f16", "f16")],
        columns=32,
    )
    small = replace(software_gpu(), max_binding=50 * 64 * 2)
    assert len(sections(Weight("w", (101, 32), "f16", "f16"), small.max_binding)) == 2
    np.testing.assert_array_equal(one.run(small), one.expected())
