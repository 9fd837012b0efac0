"""Reading results off the GPU: both ways of transfer, staging buffers reused, reads in any order."""

import numpy as np
import pytest
from gpu_ops import software_gpu

from doppler_core.device.readback import NativeTransfer, ObjectTransfer, Readback, best_transfer


def copied(readback: Readback, values: np.ndarray) -> tuple[object, int, object]:
    """What `read` takes, after a copy of `values` was submitted."""
    gpu = software_gpu()
    source = gpu.storage(values.nbytes)
    gpu.device.queue.write_buffer(source, 0, values)
    staging = readback.take(values.nbytes)
    encoder = gpu.device.create_command_encoder()
    encoder.copy_buffer_to_buffer(source, 0, staging, 0, values.nbytes)
    return staging, values.nbytes, readback.submit(encoder.finish())


def test_this_version_of_the_library_has_the_native_handles() -> None:
    assert isinstance(best_transfer(software_gpu()), NativeTransfer), "the pin in pyproject.toml is wrong"


@pytest.mark.parametrize("transfer", [NativeTransfer, ObjectTransfer])
def test_reads_give_what_was_copied_in_any_order(transfer: type) -> None:
    readback = Readback(software_gpu(), transfer)
    written = [np.arange(start, start + 300, dtype=np.uint32) for start in (0, 1000, 2000)]
    under_way = [copied(readback, values) for values in written]
    for index in (2, 0, 1):
        np.testing.assert_array_equal(readback.read(*under_way[index]).view(np.uint32), written[index])


@pytest.mark.parametrize("transfer", [NativeTransfer, ObjectTransfer])
def test_a_buffer_that_was_read_is_used_again(transfer: type) -> None:
    readback = Readback(software_gpu(), transfer)
    first, second = np.full(70, 7, np.uint32), np.full(9, 9, np.uint32)
    one = copied(readback, first)
    readback.read(*one)
    other = copied(readback, second)
    assert other[0] is one[0]
    np.testing.assert_array_equal(readback.read(*other).view(np.uint32), second)


def test_a_buffer_that_nobody_read_is_not_used_again() -> None:
    readback = Readback(software_gpu())
    one, other = (copied(readback, np.ones(8, np.uint32)) for _ in range(2))
    assert other[0] is not one[0]


def test_few_buffers_are_kept() -> None:
    readback = Readback(software_gpu())
    for under_way in [copied(readback, np.ones(8, np.uint32)) for _ in range(10)]:
        readback.read(*under_way)
    assert len(readback._free) == 4


def test_nothing_to_read_is_read_all_the_same() -> None:
    readback = Readback(software_gpu())
    staging = readback.take(0)
    submission = readback.submit(software_gpu().device.create_command_encoder().finish())
    assert readback.read(staging, 0, submission).size == 0
