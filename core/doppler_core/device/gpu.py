"""An opened GPU device and the few things programs need of it: buffers, pipelines, uploads. It knows no plan."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import wgpu

from doppler_core.device.adapters import GpuAdapter
from doppler_core.device.gpu_errors import explained
from doppler_core.device.limits import Ability
from doppler_core.device.probe import Probe, probe
from doppler_core.errors import LimitError
from doppler_core.plan.op import Scalar
from doppler_core.plan.signature import FIRST_OPERAND, Signature

_BINDING = "max-storage-buffer-binding-size"
_BUFFER = "max-buffer-size"
_STORAGE = "max-storage-buffers-per-shader-stage"
# What every WebGPU device grants without being asked.
_DEFAULTS = {_BINDING: 128 << 20, _BUFFER: 256 << 20, _STORAGE: 8}


@dataclass(frozen=True)
class Gpu:
    """An open device.

    max_binding: bytes of the largest storage buffer that can be made and bound. storage_buffers: how many a kernel binds.
    """

    adapter: GpuAdapter
    probe: Probe
    device: Any
    max_binding: int
    storage_buffers: int
    features: frozenset[str]
    fence: Any
    _modules: dict[str, Any] = field(default_factory=dict)
    _layouts: dict[tuple[str, ...], Any] = field(default_factory=dict)
    _pipelines: dict[tuple[object, ...], Any] = field(default_factory=dict)

    @property
    def ability(self) -> Ability:
        """What plans are checked against."""
        return Ability(
            name=self.adapter.name,
            max_binding=self.max_binding,
            storage_buffers=self.storage_buffers,
            subgroup_size=self.probe.subgroup_size,
            loop_cap=self.probe.loop_cap,
            features=self.features,
        )

    def buffer(self, size: int, usage: int) -> Any:
        """A buffer of at least `size` bytes, made up to whole elements of any kind, that can be written and read."""
        both = wgpu.BufferUsage.COPY_DST | wgpu.BufferUsage.COPY_SRC
        return self.device.create_buffer(size=max(16, -(-size // 16) * 16), usage=usage | both)

    def storage(self, size: int) -> Any:
        """A storage buffer."""
        return self.buffer(size, wgpu.BufferUsage.STORAGE)

    def uniform(self, size: int) -> Any:
        """A uniform buffer."""
        return self.buffer(size, wgpu.BufferUsage.UNIFORM)

    def wait(self) -> None:
        """Run what was written and submitted, and wait for its end; frees the staging memory of writes.

        A read is queued behind all of it, and waits (the library's own call for this fails in 0.32).
        """
        self.device.queue.read_buffer(self.fence)

    def pipeline(
        self, signature: Signature, overrides: Mapping[str, Scalar], text: Callable[[str], str]
    ) -> tuple[Any, Any]:
        """(pipeline, bind group layout) of a kernel with its override constants. ShaderError names the kernel."""
        layout = self._layout(signature)
        key = (signature.file, signature.entry, *sorted(overrides.items()))
        if key not in self._pipelines:
            with explained(f"compiling {signature} for {self.adapter.name}"):
                if signature.file not in self._modules:
                    self._modules[signature.file] = self.device.create_shader_module(
                        label=signature.file, code=text(signature.file)
                    )
                self._pipelines[key] = self.device.create_compute_pipeline(
                    label=str(signature),
                    layout=self.device.create_pipeline_layout(bind_group_layouts=[layout]),
                    compute={
                        "module": self._modules[signature.file],
                        "entry_point": signature.entry,
                        "constants": {name: float(value) for name, value in overrides.items()},
                    },
                )
        return self._pipelines[key], layout

    def _layout(self, signature: Signature) -> Any:
        types = tuple(
            "storage" if operand.kind == "output" else "read-only-storage" for operand in signature.operands
        )
        if types not in self._layouts:
            entries = [
                {"binding": binding, "visibility": wgpu.ShaderStage.COMPUTE, "buffer": {"type": kind}}
                for binding, kind in enumerate(("uniform",) * FIRST_OPERAND + types)
            ]
            self._layouts[types] = self.device.create_bind_group_layout(entries=entries)
        return self._layouts[types]


def open_gpu(
    adapter: GpuAdapter, *, features: frozenset[str] = frozenset(), default_limits: bool = False
) -> Gpu:
    """Open a device with the largest and the most buffers the adapter grants, or with WebGPU's default limits.

    features: those the kernels need; LimitError names a missing one.
    """
    missing = sorted(features - set(adapter.native.features))
    if missing:
        raise LimitError(
            f"{adapter} lacks the feature {', '.join(missing)}: choose another kernel profile or device"
        )
    limits = dict(_DEFAULTS)
    if not default_limits:
        limits = {name: max(least, adapter.native.limits[name]) for name, least in _DEFAULTS.items()}
    with explained(f"opening {adapter}"):
        device = adapter.native.request_device_sync(
            label="doppler", required_features=sorted(features), required_limits=limits
        )
    return Gpu(
        adapter=adapter,
        probe=probe(adapter),
        device=device,
        max_binding=min(limits[_BINDING], limits[_BUFFER]),
        storage_buffers=limits[_STORAGE],
        features=features,
        fence=device.create_buffer(size=16, usage=wgpu.BufferUsage.COPY_SRC),
    )
