"""Errors of the native library, told in this project's words. It imports wgpu, so import it where a device is used."""

from collections.abc import Iterator
from contextlib import contextmanager

import wgpu

from doppler_core.errors import DeviceLostError, LimitError, ShaderError


@contextmanager
def explained(doing: str) -> Iterator[None]:
    """Turn a native error inside the block into ShaderError, LimitError or DeviceLostError that says what was done."""
    try:
        yield
    except wgpu.GPUOutOfMemoryError as error:
        raise LimitError(
            f"{doing}: the GPU is out of memory ({error}); close other engines or use fewer rows"
        ) from error
    except (wgpu.GPUError, wgpu.GPUPipelineError) as error:
        text = str(error)
        if "lost" in text.lower() or "device is invalid" in text.lower():
            raise DeviceLostError(
                f"{doing}: the GPU device was lost; open the model again ({text})"
            ) from error
        raise ShaderError(f"{doing}: {text}") from error
