"""Storage types: what is stored comes back, blocks read as the independent `gguf` package reads them."""

from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, quants
from hypothesis import given, settings
from hypothesis import strategies as st

from doppler_core.errors import QuantizationError
from doppler_core.weights import q4_k, q8_0
from doppler_core.weights.floats import Floats, f32_to_bf16
from doppler_core.weights.storage import as_kernel_type, columns_f32, gather_f32, store, to_f32
from doppler_core.weights.tensor import BLOCKS, STORED, WRITTEN, StorageType, Tensor, row_bytes, tensor_bytes

BLOCK_TYPES = {"q4_k": (q4_k, GGMLQuantizationType.Q4_K), "q8_0": (q8_0, GGMLQuantizationType.Q8_0)}


def normal(rows: int, columns: int, seed: int = 0) -> Floats:
    return (np.random.default_rng(seed).standard_normal((rows, columns)) * 0.03).astype(np.float32)


def tensor(values: Floats, dtype: StorageType) -> Tensor:
    return Tensor("w", values.shape, dtype, store(values, dtype, "w").reshape(-1), Path("w.bin"))


def relative_rmse(got: Floats, wanted: Floats) -> float:
    return float(np.sqrt(((got - wanted) ** 2).sum() / (wanted**2).sum()))


@pytest.mark.parametrize("dtype", BLOCK_TYPES)
@pytest.mark.parametrize("columns", [32, 256, 640, 1152, 1280])
def test_our_blocks_read_bit_equal_in_gguf(dtype: str, columns: int) -> None:
    module, theirs = BLOCK_TYPES[dtype]
    data, values = module.quantize(normal(7, columns)), np.empty((7, columns), np.float32)
    module.dequantize(data, values)
    assert np.array_equal(values, quants.dequantize(data, theirs)[:, :columns])


# The f16 steps of each block type, as the places of their upper bytes.
STEPS = {"q8_0": (1,), "q4_0": (1,), "q5_0": (1,), "q4_k": (1, 3), "q5_k": (1, 3), "q6_k": (209,)}


@pytest.mark.parametrize("dtype", STEPS)
@settings(max_examples=40)
@given(
    rows=st.integers(1, 9), blocks=st.integers(1, 4), short=st.integers(0, 31), seed=st.integers(0, 2**32 - 1)
)
def test_any_bytes_with_finite_steps_read_bit_equal_in_gguf(
    dtype: StorageType, rows: int, blocks: int, short: int, seed: int
) -> None:
    block, columns = BLOCKS[dtype], blocks * BLOCKS[dtype].values - short
    data = np.random.default_rng(seed).integers(0, 256, (rows, blocks * block.bytes), dtype=np.uint8)
    steps = data.reshape(-1, block.bytes)[:, STEPS[dtype]]
    # Clearing the exponent's top bit keeps steps finite; in a quarter of the blocks clearing all makes them subnormal.
    steps &= np.where(np.arange(len(steps)) % 4, 0xBF, 0x83).astype(np.uint8)[:, None]
    data.reshape(-1, block.bytes)[:, STEPS[dtype]] = steps
    values = to_f32(Tensor("w", (rows, columns), dtype, data.reshape(-1), Path("w.bin")))
    theirs = quants.dequantize(data, GGMLQuantizationType[dtype.upper()])[:, :columns]
    # As bits, so that 0 and -0 differ.
    assert np.array_equal(values.view(np.uint32), theirs.view(np.uint32))


@pytest.mark.parametrize("dtype", sorted(set(BLOCKS) - set(WRITTEN)))
def test_a_type_that_is_only_read_is_not_written(dtype: StorageType) -> None:
    with pytest.raises(
        QuantizationError, match=rf"'layers\.0' can't be stored as {dtype}.*use one of f32, f16"
    ):
        store(normal(1, 256), dtype, "layers.0")


def test_q4_k_beats_a_plain_rounding_of_the_span() -> None:
    values = normal(64, 768)
    # A plain min/max quantiser of 4 bits has 0.076 on normal weights; ours has 0.0705. Half the distance is slack.
    assert relative_rmse(to_f32(tensor(values, "q4_k")), values) < 0.073


def test_q8_0_stays_within_half_a_step_of_each_block() -> None:
    values = normal(16, 320)
    step = np.abs(values.reshape(16, -1, 32)).max(axis=2, keepdims=True) / 127
    error = np.abs(to_f32(tensor(values, "q8_0")) - values).reshape(16, -1, 32)
    # The f16 step differs from the exact one by 2^-11 of itself, so 127 steps by 0.062 of a step.
    assert (error <= step * 0.57).all()


@pytest.mark.parametrize("columns", [1, 31, 33, 255, 257, 1152])
@pytest.mark.parametrize("dtype", WRITTEN)
def test_rows_of_any_length_fill_whole_blocks(dtype: StorageType, columns: int) -> None:
    values = normal(3, columns)
    assert store(values, dtype, "w").shape == (3, row_bytes(dtype, columns))
    # Each type's own error on normal values, about doubled for these short rows.
    bound = {"f32": 0, "f16": 5e-4, "bf16": 4e-3, "q8_0": 0.012, "q4_k": 0.12}[dtype]
    assert relative_rmse(to_f32(tensor(values, dtype)), values) <= bound


def test_positive_sub_blocks_keep_their_floor() -> None:
    values = np.linspace(1, 1.031, 32, dtype=np.float32)[None]
    # With minima at most 0, one step of a sub-block from 0 to 1.031 is 0.069.
    assert np.abs(to_f32(tensor(values, "q4_k")) - values).max() < 0.035


@pytest.mark.parametrize("dtype", WRITTEN)
def test_zeros_and_a_single_outlier_survive(dtype: StorageType) -> None:
    values = np.zeros((2, 512), np.float32)
    values[1, 300] = -8
    back = to_f32(tensor(values, dtype))
    assert back[1, 300] == pytest.approx(-8, rel=2e-3)  # f16 steps: 2^-11 each for d and dmin
    back[1, 300] = 0
    assert not back.any()


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=64))
def test_bf16_rounds_to_nearest_even(floats: list[float]) -> None:
    values = np.array(floats, np.float32)
    values = values[np.abs(values) < 3.38e38]
    bits = f32_to_bf16(values).astype(np.uint32)
    kept = (bits << 16).view(np.float32).astype(np.float64)
    away = ((bits + 1) << 16).view(np.float32).astype(np.float64)
    toward = ((bits - 1) << 16).view(np.float32).astype(np.float64)
    error = np.abs(kept - values)
    for other in (away, toward[: len(toward)]):
        comparable = np.isfinite(other) & (np.sign(other) == np.sign(kept))
        distance = np.abs(other - values)
        assert (error <= distance)[comparable].all()
        tie = comparable & (error == distance) & (error > 0)
        assert (bits[tie] % 2 == 0).all()


def test_f16_rounds_to_nearest_even() -> None:
    half_steps = np.array([[1 + 2**-11, 1 + 3 * 2**-11]], np.float32)
    assert to_f32(tensor(half_steps, "f16")).tolist() == [[1, 1 + 2**-9]]


@pytest.mark.parametrize("fault", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", WRITTEN)
def test_values_that_are_no_numbers_are_named(dtype: StorageType, fault: float) -> None:
    values = normal(300, 768)
    values[270, 5] = fault
    with pytest.raises(QuantizationError, match=r"'layers\.0', row 1270, column 5: -?(nan|inf).*" + dtype):
        store(values, dtype, "layers.0", start=1000)


@pytest.mark.parametrize(
    ("dtype", "value"), [("f16", 65520), ("bf16", 3.4e38), ("q8_0", 9e6), ("q4_k", -3e6)]
)
def test_values_too_large_for_the_type_are_named(dtype: StorageType, value: float) -> None:
    values = np.zeros((1, 256), np.float32)
    values[0, 9] = value
    with pytest.raises(QuantizationError, match="row 0, column 9"):
        store(values, dtype, "w")


@pytest.mark.parametrize(
    ("dtype", "value"), [("f16", 65519), ("bf16", 3.39e38), ("q8_0", 8.3e6), ("q4_k", -2e6)]
)
def test_the_largest_values_a_type_takes_come_back_finite(dtype: StorageType, value: float) -> None:
    values = np.zeros((1, 256), np.float32)
    values[0, 9] = value
    assert to_f32(tensor(values, dtype))[0, 9] == pytest.approx(value, rel=4e-3)  # bf16 has 8 bits


@settings(max_examples=30)
@given(st.integers(1, 5), st.integers(1, 700), st.floats(1e-3, 1e3), st.integers(0, 2**32 - 1))
def test_q4_k_error_is_bounded_by_its_step(rows: int, columns: int, scale: float, seed: int) -> None:
    values = np.random.default_rng(seed).standard_t(2, (rows, columns)).astype(np.float32) * np.float32(scale)
    back = to_f32(tensor(values, "q4_k"))
    padded = np.pad(values, ((0, 0), (0, -columns % 256))).reshape(-1, 8, 32)
    span = np.maximum(padded.max(2), 0) - np.minimum(padded.min(2), 0)
    # One step of the widest sub-block, plus half a 6-bit step of its scale over 15 and of its minimum.
    bound = (span.max(1) * (1 / 13 + 1 / 63 + 0.5 / 63)).repeat(256)
    error = np.abs(np.pad(back - values, ((0, 0), (0, -columns % 256)))).reshape(-1)
    assert (error <= bound * 1.5).all()


def test_rows_are_read_alone() -> None:
    values = normal(10, 300)
    for dtype in WRITTEN:
        whole = tensor(values, dtype)
        assert np.array_equal(to_f32(whole, 3, 5), to_f32(whole)[3:5])


def test_gathered_rows_are_the_rows_in_the_order_asked_for() -> None:
    values = normal(10, 300)
    ids = np.array([7, 0, 7, 3], np.uint32)
    for dtype in WRITTEN:
        whole = tensor(values, dtype)
        assert np.array_equal(gather_f32(whole, ids), to_f32(whole)[ids])


def test_columns_are_read_alone_from_where_a_block_begins() -> None:
    draw = np.random.default_rng(0)
    for dtype in STORED:
        data = draw.integers(0, 255, tensor_bytes(dtype, (9, 700)), np.uint8)
        data[data & 0x7C == 0x7C] = 0  # no f16 is infinite or a NaN
        whole = Tensor("w", (9, 700), dtype, data, Path("w.bin"))
        for first, stop in ((0, 700), (256, 512), (512, 700), (256, 300)):
            found = columns_f32(whole, slice(2, 8), slice(first, stop))
            np.testing.assert_array_equal(found, to_f32(whole)[2:8, first:stop])
    with pytest.raises(ValueError, match="column 16: expected one at which a block of 32 begins"):
        columns_f32(tensor(normal(2, 64), "q8_0"), slice(0, 2), slice(16, 64))


def test_a_kernel_gets_the_files_bytes_where_the_types_agree_and_rounded_ones_elsewhere() -> None:
    values = normal(200, 640)
    packed = tensor(values, "q4_k")
    assert np.shares_memory(as_kernel_type(packed, "q4_k", 1, 3), packed.data)
    halves = as_kernel_type(packed, "f16", 10, 150).view(np.float16)
    assert np.array_equal(halves, to_f32(packed, 10, 150).astype(np.float16))
    assert np.array_equal(as_kernel_type(packed, "f32").view(np.float32), to_f32(packed))


def test_tensors_of_more_than_two_axes_are_rows_of_their_last() -> None:
    values = normal(12, 96)
    experts = Tensor("e", (3, 4, 96), "q8_0", store(values, "q8_0", "e").reshape(-1), Path("e.bin"))
    assert np.array_equal(to_f32(experts), to_f32(tensor(values, "q8_0")))


@pytest.mark.parametrize("rows", [1, 8, 13, 16])
def test_rows_of_q8_0_laid_together_are_the_same_blocks_in_another_order(rows: int) -> None:
    """Eight scales, then each row's quants, block by block; made up with rows of zeros."""
    plain = tensor(normal(rows, 96), "q8_0")
    together = as_kernel_type(plain, "q8_0x8").reshape(-1)
    assert together.nbytes == tensor_bytes("q8_0x8", (rows, 96)) == -(-rows // 8) * 8 * 3 * 34
    for row in range(-(-rows // 8) * 8):
        for block in range(3):
            eight = together[(row // 8 * 3 + block) * 272 :][:272]
            own = np.concatenate([eight[row % 8 * 2 :][:2], eight[16 + row % 8 * 32 :][:32]])
            expected = plain.row_data(row, row + 1)[0, block * 34 :][:34] if row < rows else np.zeros(34)
            np.testing.assert_array_equal(own, expected)


def test_a_type_made_for_kernels_is_in_no_file() -> None:
    assert "q8_0x8" not in STORED
    with pytest.raises(QuantizationError, match="only read"):
        store(normal(8, 32), "q8_0x8", "w")
