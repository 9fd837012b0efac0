"""Errors of the native library, told in this project's words. It imports wgpu, so import it where a device is used."""

from collections.abc import Iterator
from contextlib import contextmanager

import wgpu

from doppler_core.errors import DeviceError, DeviceLostError, DopplerError, LimitError, ShaderError


@contextmanager
def explained(doing: str) -> Iterator[None]:
    """Turn a native error inside the block into a DeviceError that says what was being done."""
    try:
        yield
    except DopplerError:
        raise
    except wgpu.GPUOutOfMemoryError as error:
        raise LimitError(
            f"{doing}: the GPU is out of memory ({error}); close other engines, or use a smaller context_length or fewer slots"
        ) from error
    except (wgpu.GPUError, wgpu.GPUPipelineError, RuntimeError) as error:
        raise _translated(doing, error) from error


def _translated(doing: str, error: Exception) -> DeviceError:
    # The library tells neither a lost device nor a failed read by a type of its own.
    if any(word in str(error).lower() for word in ("lost", "could not map", "device is invalid")):
        return DeviceLostError(
            f"{doing}: the GPU device was lost, so close the engine and open the model again ({error})"
        )
    if "not enough memory" in str(error).lower() or "out of memory" in str(error).lower():
        return LimitError(
            f"{doing}: {error}; close other engines, or use a smaller context_length or fewer slots"
        )
    kind = DeviceError if isinstance(error, RuntimeError) else ShaderError
    return kind(f"{doing}: {error}")
