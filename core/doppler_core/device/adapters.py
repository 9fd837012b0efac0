"""GPU adapters: which there are, and which one a `device` setting means. It opens none.

The native library is imported on first use: it costs a quarter of a second and may start driver threads.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from doppler_core.device.quick_types import quicken_wgpu
from doppler_core.errors import NoAdapterError

REMEDY = (
    "install a Vulkan driver (Debian and Ubuntu: libvulkan1 and mesa-vulkan-drivers, which also brings a software "
    "GPU adapter), or use device='numpy'"
)
# OpenGL is a second, lesser view of the same hardware.
_BACKENDS = ("Vulkan", "Metal", "D3D12")


@dataclass(frozen=True)
class GpuAdapter:
    """A GPU adapter of this machine.

    type: "DiscreteGPU", "IntegratedGPU", "CPU" (software) or "Unknown". driver: its version in the driver's words.
    """

    index: int
    name: str
    type: str
    backend: str
    driver: str
    native: Any = field(repr=False, compare=False)

    @property
    def hardware(self) -> bool:
        """Whether it is more than a program running on the processor."""
        return self.type != "CPU"

    def __str__(self) -> str:
        return f"{self.index}: {self.name} ({self.type}, {self.backend}, {self.driver})"


def list_adapters() -> list[GpuAdapter]:
    """All GPU adapters, numbered as `wgpu:<index>` names them; empty where the native library finds none."""
    import wgpu

    with _no_display():
        quicken_wgpu()
        found = [a for a in wgpu.gpu.enumerate_adapters_sync() if a.info["backend_type"] in _BACKENDS]
    return [
        GpuAdapter(
            index=index,
            name=adapter.info["device"],
            type=adapter.info["adapter_type"],
            backend=adapter.info["backend_type"],
            driver=adapter.info["description"],
            native=adapter,
        )
        for index, adapter in enumerate(found)
    ]


@contextlib.contextmanager
def _no_display() -> Iterator[None]:
    """Where there is no display, keep Mesa's device-select layer from looking for one: it complains on stderr."""
    name = "NODEVICE_SELECT"
    if "XDG_RUNTIME_DIR" in os.environ or name in os.environ:
        yield
        return
    os.environ[name] = "1"
    try:
        yield
    finally:
        os.environ.pop(name, None)


def choose_adapter(device: str, adapters: list[GpuAdapter] | None = None) -> GpuAdapter:
    """The GPU adapter that `device` means: "auto", "wgpu", "wgpu:<index>" or "wgpu:<part of the name>".

    "auto" takes hardware only; "wgpu" takes hardware first, then software. Discrete before integrated.
    NoAdapterError lists what there is and what to do.
    """
    adapters = list_adapters() if adapters is None else adapters
    ranked = sorted(adapters, key=lambda adapter: (_rank(adapter), adapter.index))
    _, _, wanted = device.partition(":")
    if device == "auto":
        ranked = [adapter for adapter in ranked if adapter.hardware]
    elif wanted.isdecimal():
        ranked = [adapter for adapter in ranked if adapter.index == int(wanted)]
    elif wanted:
        ranked = [adapter for adapter in ranked if wanted.lower() in adapter.name.lower()]
    if ranked:
        return ranked[0]
    raise NoAdapterError(_missing(device, adapters))


def _missing(device: str, adapters: list[GpuAdapter]) -> str:
    if not adapters:
        return f"device={device!r}: this machine has no GPU adapter; {REMEDY}"
    there = "; ".join(str(adapter) for adapter in adapters)
    if device == "auto":
        return f"the only GPU adapter is software ({there}), which is used when named: device='wgpu'"
    return f"device={device!r}: no GPU adapter is called so; there are {there}; name one of them, or 'numpy'"


def _rank(adapter: GpuAdapter) -> int:
    order = ("DiscreteGPU", "IntegratedGPU", "Unknown", "CPU")
    return order.index(adapter.type) if adapter.type in order else 2
