"""Storing keys and values in a state, on the software GPU adapter, against its meaning: rings, places, value norms."""

import numpy as np
import pytest
from gpu_ops import Case, Kept, packed_step

from doppler_core.plan.op import ValueType

# A value norm sums squares in another order, and the driver's 1/sqrt is right to 9e-8. In f16 a last bit, 2^-11 of a
# value, may turn over where the norm lies beside a midpoint.
TOLERANCES: dict[ValueType, float] = {"f32": 1e-6, "f16": 5e-4}
CAPACITY, PLACES = 12, 5


def case(
    dtype: ValueType, heads: int = 1, head_dim: int = 32, value_norm: bool = False, seed: int = 0
) -> Case:
    """Three sequences in places 3, 0 and 4: the second wraps around its ring, the third is on its second turn."""
    step = packed_step([5, 7, 1], start=[0, 9, 23], places=[3, 0, 4])
    rng = np.random.default_rng(seed)
    k, v = (rng.standard_normal((13, heads * head_dim), np.float32) for _ in range(2))
    state = rng.standard_normal((PLACES * CAPACITY, 2 * heads * head_dim), np.float32)
    return Case(
        "store",
        "store.wgsl#main",
        {"head_dim": head_dim, "capacity": CAPACITY, "value_norm": value_norm, "eps": 1e-6},
        step,
        inputs=[k, v],
        states=[Kept(state, dtype, CAPACITY)],
        changes_state=True,
    )


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(("heads", "head_dim"), [(1, 256), (2, 16), (3, 2), (1, 66)])
def test_a_row_goes_to_its_place_and_position_and_no_other_line_changes(
    dtype: ValueType, heads: int, head_dim: int
) -> None:
    one = case(dtype, heads, head_dim)
    expected = one.expected().astype(np.float16 if dtype == "f16" else np.float32)
    np.testing.assert_array_equal(one.run(), expected)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(("heads", "head_dim"), [(1, 256), (2, 16), (1, 66)])
def test_each_head_of_the_values_is_normed_where_the_model_says_so(
    dtype: ValueType, heads: int, head_dim: int
) -> None:
    one = case(dtype, heads, head_dim, value_norm=True)
    found, expected = one.run().astype(np.float32), one.expected()
    assert np.abs(found - expected).max() <= TOLERANCES[dtype] * np.abs(expected).max()
    norms = found[3 * CAPACITY, heads * head_dim :].reshape(heads, head_dim)
    np.testing.assert_allclose(np.sqrt((norms**2).mean(-1)), 1, rtol=1e-3)


def test_f16_states_hold_the_largest_and_the_smallest_f16() -> None:
    one = case("f16", head_dim=2)
    one.inputs[0][0] = [65504.0, 2.0**-24]
    found = one.run()[3 * CAPACITY, :2]
    np.testing.assert_array_equal(found, np.array([65504.0, 2.0**-24], np.float16))
