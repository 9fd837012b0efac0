"""What a GPU adapter does, as against what it says: its subgroup size and its loop cap, found by running a kernel.

Adapters state a range of subgroup sizes only, and one software driver ends all loops of an invocation after 65,535
turns without an error. Cached for the process.
"""

import struct
from dataclasses import dataclass
from functools import cache

from doppler_core.device.adapters import GpuAdapter
from doppler_core.device.gpu_errors import explained

_TURNS = 70_000

# The count goes through memory, so that no compiler turns the loop into a sum.
_LOOP = """
@group(0) @binding(0) var<storage, read_write> result: array<u32>;
@compute @workgroup_size(1)
fn main() {
    for (var i = 0u; i < result[0]; i++) { result[1] += 1u; }
}
"""
_SUBGROUP = """
@group(0) @binding(0) var<storage, read_write> result: array<u32>;
@compute @workgroup_size(128)
fn main(@builtin(subgroup_size) size: u32, @builtin(local_invocation_index) thread: u32) {
    if (thread == 0u) { result[1] = size; }
}
"""


@dataclass(frozen=True)
class Probe:
    """subgroup_size: 0 where the adapter has no subgroups. loop_cap: None where loops run as long as they say."""

    subgroup_size: int
    loop_cap: int | None


@cache
def probe(adapter: GpuAdapter) -> Probe:
    """Run the two probes on a device of their own."""
    subgroups = "subgroup" in adapter.native.features
    with explained(f"probing {adapter}"):
        device = adapter.native.request_device_sync(required_features=["subgroup"] if subgroups else [])
        turns = _run(device, _LOOP)
        size = _run(device, _SUBGROUP) if subgroups else 0
    return Probe(subgroup_size=size, loop_cap=None if turns == _TURNS else turns)


def _run(device, source: str) -> int:  # type: ignore[no-untyped-def]
    import wgpu

    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC
    buffer = device.create_buffer_with_data(data=struct.pack("<II", _TURNS, 0), usage=usage)
    pipeline = device.create_compute_pipeline(
        layout="auto", compute={"module": device.create_shader_module(code=source), "entry_point": "main"}
    )
    group = device.create_bind_group(
        layout=pipeline.get_bind_group_layout(0), entries=[{"binding": 0, "resource": {"buffer": buffer}}]
    )
    encoder = device.create_command_encoder()
    work = encoder.begin_compute_pass()
    work.set_pipeline(pipeline)
    work.set_bind_group(0, group)
    work.dispatch_workgroups(1)
    work.end()
    device.queue.submit([encoder.finish()])
    return int(struct.unpack("<II", device.queue.read_buffer(buffer))[1])
