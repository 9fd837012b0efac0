"""Uploads: what is written arrives, and writes wait together, never for more than a piece."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gpu_ops import software_gpu

from doppler_core.device import upload
from doppler_core.device.upload import Uploads


@dataclass
class Watched:
    """A GPU that takes note of the bytes written before each wait."""

    waits: list[list[int]] = field(default_factory=lambda: [[]])

    @property
    def device(self) -> Any:
        return SimpleNamespace(queue=SimpleNamespace(write_buffer=self.write))

    def write(self, buffer: str, offset: int, data: np.ndarray) -> None:
        self.waits[-1].append(data.nbytes)

    def wait(self) -> None:
        self.waits.append([])


@pytest.mark.parametrize(
    ("sizes", "waits"),
    [
        ([16] * 10, [[16] * 4, [16] * 4, [16] * 2, []]),
        ([16, 64, 16], [[16], [64], [16], []]),
        ([13, 51], [[16], [52], []]),
        ([100, 4], [[], [100], [4], []]),
        ([], [[], []]),
    ],
    ids=[
        "small ones wait together",
        "a whole piece waits alone",
        "padding counts",
        "more than a piece",
        "none",
    ],
)
def test_no_more_than_a_piece_waits(
    sizes: list[int], waits: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "PIECE_BYTES", 64)
    gpu = Watched()
    uploads = Uploads(gpu)  # type: ignore[arg-type]
    for size in sizes:
        uploads.write("buffer", 0, np.zeros(size, np.uint8))
    uploads.finish()
    assert gpu.waits == waits


def test_what_is_written_in_turn_is_there_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "PIECE_BYTES", 256)
    gpu = software_gpu()
    values = np.random.default_rng(7).integers(0, 256, (9, 64), np.uint8)
    uploads, buffers = Uploads(gpu), [gpu.storage(192) for _ in range(3)]
    for number, row in enumerate(values):
        uploads.write(buffers[number % 3], number // 3 * 64, row)
    uploads.finish()
    for number, buffer in enumerate(buffers):
        found = np.frombuffer(gpu.device.queue.read_buffer(buffer), np.uint8)
        assert np.array_equal(found.reshape(3, 64), values[number::3])
