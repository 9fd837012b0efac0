"""Results off the GPU: staging buffers that are reused, and submits that are waited for one by one.

The native handles let a read wait for its own submit, while the next one is still under way; the Python objects wait
for all of them. Handles are internals of the library, so that where one is missing the objects are used.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import wgpu

from doppler_core.device.gpu import Gpu

_FREE = 4  # staging buffers kept for reuse: more are in use at one time only while tickets wait unread
_LEAST_BYTES = 256

Bytes = npt.NDArray[np.uint8]


class Transfer(Protocol):
    """How commands go to the device and a mapped buffer comes back."""

    def submit(self, commands: Any) -> Any:
        """Submit a command buffer; what `read` waits for."""

    def read(self, buffer: Any, size: int, submission: Any) -> Bytes:
        """The first `size` bytes of a staging buffer, copied, once the submission has run. RuntimeError: no device."""


class ObjectTransfer:
    """With the library's public objects."""

    def __init__(self, gpu: Gpu) -> None:
        self._queue = gpu.device.queue

    def submit(self, commands: Any) -> None:
        """Submit; there is nothing to wait for but all of it."""
        self._queue.submit([commands])

    def read(self, buffer: Any, size: int, submission: Any) -> Bytes:
        """Map, copy, unmap."""
        buffer.map_sync("READ", 0, size)
        try:
            return np.frombuffer(buffer.read_mapped(0, size), np.uint8)
        finally:
            buffer.unmap()


class NativeTransfer:
    """Through native handles. AttributeError or ImportError where this version of the library lacks one."""

    def __init__(self, gpu: Gpu) -> None:
        from wgpu.backends.wgpu_native import ffi, lib
        from wgpu.backends.wgpu_native._api import libf  # the same functions, raising their errors

        self._ffi, self._lib, self._checked = ffi, lib, libf
        self._device, self._queue = gpu.device._internal, gpu.device.queue._internal
        self._submit, self._poll = libf.wgpuQueueSubmitForIndex, libf.wgpuDevicePoll
        self._map, self._range, self._unmap = (
            lib.wgpuBufferMapAsync,
            lib.wgpuBufferGetConstMappedRange,
            lib.wgpuBufferUnmap,
        )
        self._status: list[int] = []
        self._done = ffi.callback(
            "void(WGPUMapAsyncStatus, WGPUStringView, void *, void *)",
            lambda status, message, first, second: self._status.append(status),
        )
        self._info = ffi.new("WGPUBufferMapCallbackInfo *")
        self._info.mode, self._info.callback = lib.WGPUCallbackMode_AllowProcessEvents, self._done

    def submit(self, commands: Any) -> Any:
        """Submit; the index of the submission."""
        index = self._submit(self._queue, 1, self._ffi.new("WGPUCommandBuffer[]", [commands._internal]))
        return self._ffi.new("WGPUSubmissionIndex *", index)

    def read(self, buffer: Any, size: int, submission: Any) -> Bytes:
        """Map, wait for the submission alone, copy, unmap."""
        self._status.clear()
        self._map(buffer._internal, self._lib.WGPUMapMode_Read, 0, size, self._info[0])
        self._poll(self._device, True, submission)
        if not self._status:  # the wait was over before the map was noted
            self._poll(self._device, True, self._ffi.NULL)
        if self._status != [self._lib.WGPUMapAsyncStatus_Success]:
            raise RuntimeError(f"could not map a staging buffer (status {self._status})")
        mapped = self._ffi.buffer(self._range(buffer._internal, 0, size), size)
        found = np.frombuffer(mapped, np.uint8).copy()
        self._unmap(buffer._internal)
        return found


def best_transfer(gpu: Gpu) -> Transfer:
    """Native where the library and its objects have handles, else the Python objects."""
    try:
        return NativeTransfer(gpu)
    except (ImportError, AttributeError):
        return ObjectTransfer(gpu)


class Readback:
    """Staging buffers of one device."""

    def __init__(self, gpu: Gpu, transfer: Callable[[Gpu], Transfer] = best_transfer) -> None:
        self._gpu = gpu
        self._transfer = transfer(gpu)
        self._free: list[Any] = []

    def take(self, size: int) -> Any:
        """A staging buffer of at least `size` bytes; `read` takes it back. One that is dropped unread is freed."""
        for index, buffer in enumerate(self._free):
            if buffer.size >= size:
                return self._free.pop(index)
        usage = wgpu.BufferUsage.MAP_READ | wgpu.BufferUsage.COPY_DST
        return self._gpu.device.create_buffer(
            size=max(_LEAST_BYTES, 1 << (size - 1).bit_length()), usage=usage
        )

    def submit(self, commands: Any) -> Any:
        """Submit a command buffer; what `read` waits for."""
        return self._transfer.submit(commands)

    def read(self, buffer: Any, size: int, submission: Any) -> Bytes:
        """The first `size` bytes of a staging buffer, once the submission has run."""
        found = self._transfer.read(buffer, max(size, 4), submission)[:size]  # nothing can't be mapped
        self._free = [*self._free, buffer][-_FREE:]
        return found
