"""Replaying dispatches into a compute pass: through the native library's handles, or through the Python objects.

Encoding a model's dispatches costs milliseconds a step. The handles skip the Python objects' checks (several times
faster); errors surface all the same, when the pass is finished. They are internals of the library, so that where one
is missing the objects are used.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Grid = tuple[int, int, int]
Encode = Callable[[Any, Sequence["Dispatch"], Sequence[Grid]], None]


@dataclass(frozen=True)
class Dispatch:
    """A pipeline with its operands, made when the program is bound. label: the op's, for messages."""

    label: str
    pipeline: Any
    group: Any


def encode_with_objects(work: Any, dispatches: Sequence[Dispatch], grids: Sequence[Grid]) -> None:
    """Encode into the pass `work` with the library's public objects."""
    pipeline = None
    for dispatch, grid in zip(dispatches, grids, strict=True):
        if dispatch.pipeline is not pipeline:
            pipeline = dispatch.pipeline
            work.set_pipeline(pipeline)
        work.set_bind_group(0, dispatch.group)
        work.dispatch_workgroups(*grid)


def native_encoder() -> Encode | None:
    """The same through native handles, or None where this version of the library lacks one."""
    try:
        from wgpu.backends.wgpu_native import ffi, lib

        set_pipeline = lib.wgpuComputePassEncoderSetPipeline
        set_group = lib.wgpuComputePassEncoderSetBindGroup
        run = lib.wgpuComputePassEncoderDispatchWorkgroups
        nothing = ffi.NULL
    except (ImportError, AttributeError):
        return None

    def encode(work: Any, dispatches: Sequence[Dispatch], grids: Sequence[Grid]) -> None:
        handle = work._internal
        pipeline = None
        for dispatch, (x, y, z) in zip(dispatches, grids, strict=True):
            if dispatch.pipeline is not pipeline:
                pipeline = dispatch.pipeline
                set_pipeline(handle, pipeline._internal)
            set_group(handle, 0, dispatch.group._internal, 0, nothing)
            run(handle, x, y, z)

    return encode


def best_encoder(example: Dispatch) -> Encode:
    """Native where the library and its objects (`example`'s) have handles, else the Python objects."""
    native = native_encoder()
    handles = all(hasattr(thing, "_internal") for thing in (example.pipeline, example.group))
    return native if native is not None and handles else encode_with_objects
