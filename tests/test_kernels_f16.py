"""Kernels for f16 activations, on the software GPU adapter, which has shader-f16: against the kernels for f32, bit for
bit, and against their meanings; and the casts between the two types."""

from dataclasses import replace

import numpy as np
import pytest
from gpu_ops import SOFTWARE, Case, packed_step
from kernel_examples import example

from doppler_core.device.adapters import choose_adapter
from doppler_core.plan.kernel_tables.f16 import FEATURE, TWINS
from doppler_core.plan.kernels import SIGNATURES
from doppler_core.plan.signature import Signature

ROWS = [row for row in SIGNATURES.values() if row.file in TWINS]
STEP = (
    2.0**-10
)  # from an f16 to the next, relative: two sums that differ in their last bits may round to neighbours


def case(row: Signature) -> Case:
    """An op for a row of the table, with weights that are all different."""
    one = example(row)
    draw = np.random.default_rng(5)
    return replace(one, weights=[draw.standard_normal(weight.shape, np.float32) for weight in one.weights])


def test_this_machines_adapter_can_run_them() -> None:
    """They are run here, not only parsed; on an adapter without the feature manifests are run with f32 activations."""
    assert FEATURE in choose_adapter(SOFTWARE).native.features


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_twin_gives_what_the_kernel_for_f32_gives_rounded_once(row: Signature) -> None:
    twin = case(SIGNATURES[TWINS[row.file], row.entry])
    other = replace(twin, kernel=str(row), inputs=twin.read())
    assert other.types()[1] != "f16"
    expected = other.run()
    expected = expected if twin.changes_state else expected.astype(np.float16)
    assert len(np.unique(expected)) > 100  # numbers of all kinds, not zeros
    np.testing.assert_array_equal(twin.run(), expected)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_twin_computes_its_meaning(row: Signature) -> None:
    twin = case(SIGNATURES[TWINS[row.file], row.entry])
    found, expected = (values.astype(np.float32) for values in (twin.run(), twin.expected()))
    # Beside the rounding of the result: sums in f32, and the driver's exp and tanh.
    assert (np.abs(found - expected) <= STEP * np.abs(expected) + 1e-5 * np.abs(expected).max()).all()


def casted(kernel: str, x: np.ndarray) -> np.ndarray:
    return Case(
        "cast", f"{kernel}.wgsl#main", {"columns": x.shape[1]}, packed_step([len(x)]), [x], columns=x.shape[1]
    ).run()


def test_every_finite_f16_is_the_same_number_in_f32() -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = halves[np.isfinite(halves)].astype(np.float32).reshape(31, -1)
    np.testing.assert_array_equal(casted("cast_f16_to_f32", finite), finite)


@pytest.mark.parametrize("columns", [1, 7, 1025])
def test_a_cast_to_f16_gives_a_neighbour(columns: int) -> None:
    """WGSL leaves open which of the two: here it is the nearer one, as in NumPy."""
    x = np.random.default_rng(0).standard_normal((5, columns), np.float32) * np.float32(100)
    x[0, 0] = 1e-6  # a subnormal
    np.testing.assert_array_equal(casted("cast_f32_to_f16", x), x.astype(np.float16))


def test_a_cast_of_what_f16_can_not_hold_is_the_largest_or_infinite() -> None:
    found = casted("cast_f32_to_f16", np.array([[1e5, -1e5, 65_504.0]], np.float32))
    assert (np.abs(found) >= 65_504).all()
    np.testing.assert_array_equal(np.sign(found), [[1, -1, 1]])
