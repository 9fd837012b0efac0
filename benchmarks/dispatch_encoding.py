"""What encoding one dispatch costs: through the native library's handles, against the library's Python objects.

    python benchmarks/dispatch_encoding.py [--dispatches 400] [--rounds 30]

Both encode the same list into a pass and finish it, without running it; the rounds of the two take turns. Prints the
median of each in microseconds, and exits with 1 when the handles take more than half of the objects' time.
"""

import argparse
import statistics
import sys
import time

from doppler_core.device.adapters import choose_adapter
from doppler_core.device.gpu import Gpu, open_gpu
from doppler_core.device.replay import Dispatch, Encode, encode_with_objects, native_encoder

BAR = 0.5

# Two kernels, so that the pipeline changes with every dispatch, as it mostly does in a model.
SOURCE = """
@group(0) @binding(0) var<storage, read_write> numbers: array<u32>;
@compute @workgroup_size(1) fn first() { numbers[0] += 1u; }
@compute @workgroup_size(1) fn second() { numbers[1] += 1u; }
"""


def dispatches(gpu: Gpu, count: int) -> list[Dispatch]:
    """A list as a bound program has it, with a bind group for each dispatch."""
    module = gpu.device.create_shader_module(code=SOURCE)
    buffer = gpu.storage(16)
    layout = gpu.device.create_bind_group_layout(
        entries=[{"binding": 0, "visibility": 4, "buffer": {"type": "storage"}}]
    )
    pipelines = [
        gpu.device.create_compute_pipeline(
            layout=gpu.device.create_pipeline_layout(bind_group_layouts=[layout]),
            compute={"module": module, "entry_point": entry},
        )
        for entry in ("first", "second")
    ]
    entries = [{"binding": 0, "resource": {"buffer": buffer}}]
    return [
        Dispatch(
            str(index), pipelines[index % 2], gpu.device.create_bind_group(layout=layout, entries=entries)
        )
        for index in range(count)
    ]


def encoding_time(gpu: Gpu, encode: Encode, listed: list[Dispatch]) -> float:
    """Microseconds for each dispatch."""
    encoder = gpu.device.create_command_encoder()
    work = encoder.begin_compute_pass()
    grids = [(1, 1, 1)] * len(listed)
    start = time.perf_counter()
    encode(work, listed, grids)
    took = time.perf_counter() - start
    work.end()
    encoder.finish()
    return took / len(listed) * 1e6


def measure(count: int, rounds: int) -> dict[str, float]:
    """Median microseconds of a dispatch, for both ways."""
    native = native_encoder()
    if native is None:
        sys.exit("this version of wgpu has no native handles; see the pin in pyproject.toml")
    gpu = open_gpu(choose_adapter("wgpu"))
    listed = dispatches(gpu, count)
    ways = {"objects": encode_with_objects, "handles": native}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, encode in ways.items():
            times[name].append(encoding_time(gpu, encode, listed))
    return {name: statistics.median(found) for name, found in times.items()}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dispatches", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=30)
    arguments = parser.parse_args()
    found = measure(arguments.dispatches, arguments.rounds)
    ratio = found["handles"] / found["objects"]
    print(
        f"objects {found['objects']:.2f} us, handles {found['handles']:.2f} us a dispatch: ratio {ratio:.2f} (bar {BAR})"
    )
    return 0 if ratio <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
