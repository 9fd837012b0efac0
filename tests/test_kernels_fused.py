"""Kernels that do the work of several ops, against the meaning of all: norms, products, gates, rotations in one."""

from dataclasses import replace

import numpy as np
import pytest
from gpu_ops import Case, Kept, packed_step
from test_kernels_cached_attention import case as attention_case
from test_kernels_store import CAPACITY
from test_kernels_store import case as store_case

from doppler_core.plan.op import Constant, ValueType
from doppler_core.weights.tensor import StorageType

# f32 sums of up to 2,048 products in another order than BLAS, as in test_kernels_matmul, on values that a norm (1/sqrt,
# 9e-8) or a gate (tanh, 1e-7) has rounded before.
TOLERANCE = 6e-6


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def assert_close(found: np.ndarray, expected: np.ndarray, tolerance: float = TOLERANCE) -> None:
    assert np.isfinite(found).all()
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


@pytest.mark.parametrize("norm", ["f32", "f16"])
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize(
    ("rows", "inner", "columns"),
    [(1, 32, [1]), (1, 256, [70]), (3, 640, [33, 16]), (1, 1536, [256, 64, 64]), (2, 96, [5, 1, 7])],
)
def test_a_norm_and_up_to_three_products_side_by_side(
    norm: StorageType, offset: int, rows: int, inner: int, columns: list[int]
) -> None:
    matrices = [random(count, inner, seed=seed) for seed, count in enumerate(columns, 1)]
    params = {"columns": sum(columns), "inner": inner, "eps": 1e-6, "offset": offset}
    sizes = dict(zip(("a_rows", "b_rows"), columns, strict=False))
    one = Case(
        "projections",
        "projections_q4_k_gemv.wgsl#main",
        {**params, **sizes},
        packed_step([rows]),
        inputs=[np.float32(100) * random(rows, inner)],
        weights=[random(inner, seed=9), *matrices],
        weight_types=[("f32", norm), *[("q4_k", "q4_k")] * len(matrices)],
        columns=sum(columns),
    )
    assert_close(one.run(), one.expected())


@pytest.mark.parametrize(
    ("rows", "inner", "columns", "gate_columns", "up_columns", "up_first"),
    [
        (1, 32, 1, 32, 32, 0),
        (1, 256, 70, 256, 8960, 512),
        (3, 640, 33, 704, 640, 0),
        (2, 96, 16, 200, 200, 100),
    ],
)
def test_a_product_of_gated_values(
    rows: int, inner: int, columns: int, gate_columns: int, up_columns: int, up_first: int
) -> None:
    one = Case(
        "gated_matmul",
        "gated_q4_k_gemv.wgsl#main",
        {"columns": columns, "inner": inner, "up_first": up_first},
        packed_step([rows]),
        inputs=[2 * random(rows, gate_columns), random(rows, up_columns, seed=1)],
        weights=[random(columns, inner, seed=2)],
        weight_types=[("q4_k", "q4_k")],
        columns=columns,
    )
    assert_close(one.run(), one.expected())


def turn(head_dim: int) -> Constant:
    """Angles of 400 positions."""
    numbers = {"positions": 400, "head_dim": head_dim, "theta": 10_000.0, "scaling_factor": 1.0}
    return Constant("turn", "rope", (400, head_dim // 2, 2), numbers)


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("weights", [0, 1])
@pytest.mark.parametrize("value_norm", [False, True])
@pytest.mark.parametrize(("heads", "head_dim"), [(1, 256), (2, 16), (3, 2), (1, 66)])
def test_keys_are_normed_and_turned_before_they_are_stored(
    dtype: ValueType, weights: int, value_norm: bool, heads: int, head_dim: int
) -> None:
    one = store_case(dtype, heads, head_dim, value_norm)
    one = replace(
        one,
        params={**one.params, "offset": 1},
        weights=[random(head_dim, seed=3)] * weights,
        weight_types=[("f32", "f16")] * weights,
        constants=[turn(head_dim)],
    )
    # A last bit of f16, 2^-11 of a value, may turn over.
    assert_close(one.run().astype(np.float32), one.expected(), 1e-6 if dtype == "f32" else 5e-4)


def test_keys_and_values_may_be_columns_of_one_input() -> None:
    plain = store_case("f16", 2, 16)
    joint = np.concatenate([random(13, 64, seed=5), *plain.inputs, random(13, 8, seed=6)], -1)
    first = {"columns": 32, "k_first": 64, "v_first": 96}
    one = replace(plain, params={**plain.params, **first}, inputs=[joint, joint])
    np.testing.assert_array_equal(one.run(), plain.run())
    np.testing.assert_array_equal(one.expected()[3 * CAPACITY], plain.expected()[3 * CAPACITY])


@pytest.mark.parametrize("weights", [0, 1])
@pytest.mark.parametrize("kernel", ["attention_decode_online_f16kv.wgsl", "attention_streaming_f16kv.wgsl"])
@pytest.mark.parametrize(("heads", "head_dim"), [(8, 256), (2, 512), (4, 16), (3, 36)])
def test_queries_are_normed_and_turned_before_they_ask(
    kernel: str, weights: int, heads: int, head_dim: int
) -> None:
    plain = attention_case(kernel, packed_step([1, 3], start=[300, 20]), heads, 1, head_dim)
    one = replace(
        plain,
        params={**plain.params, "eps": 1e-6, "offset": 0},
        weights=[random(head_dim, seed=3)] * weights,
        weight_types=[("f32", "f32")] * weights,
        constants=[turn(head_dim)],
    )
    assert_close(one.run(), one.expected(), 1e-5)  # as in test_kernels_cached_attention


@pytest.mark.parametrize(
    "kernel",
    ["attention_decode_online_f16kv.wgsl", "attention_streaming_f16kv.wgsl", "attention_head512_f16kv.wgsl"],
)
def test_queries_may_be_the_first_columns_of_a_wider_input(kernel: str) -> None:
    plain = attention_case(kernel, packed_step([1, 3], start=[300, 20]))
    wide = np.concatenate([plain.inputs[0], random(4, 36, seed=5)], -1)
    one = replace(plain, inputs=[wide])
    np.testing.assert_array_equal(one.run(), plain.run())
    np.testing.assert_array_equal(one.expected(), plain.expected())


def test_a_state_of_f32_takes_the_same_keys() -> None:
    """What the kernel rounds to f16 is what it stores in f32."""
    state = {dtype: store_case(dtype, 1, 32) for dtype in ("f16", "f32")}
    states = {
        dtype: replace(
            one, constants=[turn(32)], states=[Kept(np.zeros_like(one.states[0].values), dtype, CAPACITY)]
        )
        for dtype, one in state.items()
    }
    np.testing.assert_array_equal(states["f16"].run(), states["f32"].run().astype(np.float16))
