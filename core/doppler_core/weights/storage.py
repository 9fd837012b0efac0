"""Storage types: rows of a tensor to float32, float32 rows to bytes, and bytes of one type to those of another.

Works in blocks of rows that fit a CPU's cache, so a call needs little beside its result. It knows no file format.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from doppler_core.errors import QuantizationError
from doppler_core.weights import q4_0, q4_k, q5_0, q5_k, q6_k, q8_0
from doppler_core.weights.floats import Floats, bf16_to_f32, f32_to_bf16
from doppler_core.weights.tensor import BLOCKS, TOGETHER, WRITTEN, Bytes, StorageType, Tensor, row_bytes

Ids = npt.NDArray[np.uint32]

# A block and its temporaries stay in a core's second-level cache: 256 KiB of float32 values that are encoded, and twice
# as many that are decoded, which needs less beside them.
_ENCODED, _DECODED = 1 << 16, 1 << 17

# Magnitudes from here on have no finite stored form. Floats: half a step above the largest finite value.
_LIMITS = {"f32": np.inf, "f16": 65520.0, "bf16": 3.3961775e38, "q8_0": q8_0.LIMIT, "q4_k": q4_k.LIMIT}

# uint8 [R, row_bytes] into float32 [R, columns], contiguous.
_DECODERS: Mapping[StorageType, Callable[[Bytes, Floats], None]] = {
    "f32": lambda data, values: np.copyto(values, data.view("<f4")),
    "f16": lambda data, values: np.copyto(values, data.view("<f2")),
    "bf16": lambda data, values: np.copyto(values, bf16_to_f32(data.view("<u2"))),
    "q8_0": q8_0.dequantize,
    "q4_0": q4_0.dequantize,
    "q5_0": q5_0.dequantize,
    "q4_k": q4_k.dequantize,
    "q5_k": q5_k.dequantize,
    "q6_k": q6_k.dequantize,
}
_ENCODERS: Mapping[StorageType, Callable[[Floats], Bytes]] = {
    "f32": lambda values: values.view(np.uint8),
    "f16": lambda values: values.astype("<f2").view(np.uint8),
    "bf16": lambda values: f32_to_bf16(values).view(np.uint8),
    "q8_0": q8_0.quantize,
    "q4_k": q4_k.quantize,
}


def to_f32(tensor: Tensor, start: int = 0, stop: int | None = None) -> Floats:
    """Rows `start` to `stop` (default: all) as float32 [rows, columns].

    An f32 tensor gives a read-only view of its file, any other type a new array. Rows, not values, are the unit:
    a caller bounds its memory by the rows it asks for.
    """
    stop = tensor.rows if stop is None else stop
    data = tensor.row_data(start, stop)
    if tensor.dtype == "f32":
        return np.require(data.view("<f4"), requirements="A")
    return _decoded(data, tensor.dtype, np.empty((stop - start, tensor.columns), np.float32))


def fill_f32(values: Floats, tensor: Tensor, start: int) -> None:
    """Put the rows from `start` on into `values`, float32 [rows, columns]."""
    _decoded(tensor.row_data(start, start + len(values)), tensor.dtype, values)


def columns_f32(tensor: Tensor, rows: slice, columns: slice) -> Floats:
    """Some columns of some rows, new float32 [rows, columns]. The first column must be the first of a block."""
    first, block = columns.start, BLOCKS[tensor.dtype]
    if first % block.values:
        raise ValueError(f"column {first}: expected one at which a block of {block.values} begins")
    begin, end = (row_bytes(tensor.dtype, count) for count in (first, columns.stop))
    data = tensor.row_data(rows.start, rows.stop)[:, begin:end]
    return _decoded(data, tensor.dtype, np.empty((len(data), columns.stop - first), np.float32))


def gather_f32(tensor: Tensor, ids: Ids) -> Floats:
    """The rows of `ids`, in their order, as float32 [ids, columns]; a table larger than memory stays a map."""
    data = tensor.row_data(0, tensor.rows)[ids]
    return _decoded(data, tensor.dtype, np.empty((len(ids), tensor.columns), np.float32))


def store(values: Floats, dtype: StorageType, name: str, start: int = 0) -> Bytes:
    """float32 [R, K] as uint8 [R, row_bytes], rounded to nearest even.

    A NaN, an infinite value or one too large for the type is a QuantizationError that names the tensor, the row
    (`start` is the row of values[0] in it) and the column; a type that is only read is one too.
    """
    if dtype not in WRITTEN:
        raise QuantizationError(
            f"tensor {name!r} can't be stored as {dtype}, which is only read; use one of {', '.join(WRITTEN)}"
        )
    rows = np.empty((len(values), row_bytes(dtype, values.shape[1])), np.uint8)
    for first, last in _row_blocks(len(values), values.shape[1], _ENCODED):
        block = np.ascontiguousarray(values[first:last], np.float32)
        _check_range(block, dtype, name, start + first)
        rows[first:last] = _ENCODERS[dtype](block)
    return rows


def as_kernel_type(tensor: Tensor, dtype: StorageType, start: int = 0, stop: int | None = None) -> Bytes:
    """Rows as a kernel reads them, uint8 [rows, row_bytes(dtype, columns)], made up to as many as lie together.

    The bytes of the file where the types agree, else through float32. QuantizationError as `store`.
    """
    stop = tensor.rows if stop is None else stop
    if tensor.dtype == dtype:
        return tensor.row_data(start, stop)
    if TOGETHER.get(tensor.dtype) == dtype:
        return q8_0.eight_together(tensor.row_data(start, stop))
    rows = np.empty((stop - start, row_bytes(dtype, tensor.columns)), np.uint8)
    for first, last in _row_blocks(stop - start, tensor.columns, _ENCODED):
        values = to_f32(tensor, start + first, start + last)
        rows[first:last] = store(values, dtype, tensor.name, start + first)
    return rows


def _decoded(data: Bytes, dtype: StorageType, values: Floats) -> Floats:
    """`values` [rows, columns], filled with what `data` [rows, row_bytes] says."""
    for first, last in _row_blocks(len(values), values.shape[1], _DECODED):
        _DECODERS[dtype](data[first:last], values[first:last])
    return values


def _row_blocks(rows: int, columns: int, values: int) -> Iterator[tuple[int, int]]:
    """Runs of rows, (first, last), of about so many values."""
    step = max(1, values // columns)
    return ((first, min(first + step, rows)) for first in range(0, rows, step))


def _check_range(values: Floats, dtype: StorageType, name: str, start: int) -> None:
    limit = _LIMITS[dtype]
    # max and min pass a NaN on, and a comparison with NaN is false: one test finds all three faults.
    if not values.size or (values.max() < limit and values.min() > -limit):
        return
    row, column = np.argwhere(~(np.abs(values) < limit))[0]
    raise QuantizationError(
        f"tensor {name!r}, row {start + row}, column {column}: {values[row, column]} can't be stored as {dtype} "
        f"(expected a finite value below {limit:g} in magnitude); use a wider type or mend the checkpoint"
    )
