"""The checks of `doctor` that look at the machine: GPU library and adapters, NumPy's threads, the cache folder."""

import os
import shutil
import tempfile

from doppler_core.settings import EngineSettings, cache_dir
from doppler_plugins.cli.check import Check
from doppler_plugins.cli.output import size

_MIN_STORAGE_BUFFERS = 8  # WebGPU's own default, and the most that a kernel of ours binds
_MIN_FREE_BYTES = 2 << 30  # a converted EmbeddingGemma in f16, and room to write the next


def gpu_library(_: EngineSettings) -> list[Check]:
    """Whether WebGPU's native library is there."""
    try:
        import wgpu
        import wgpu.backends.wgpu_native
    except Exception as error:  # noqa: BLE001 - a native library fails in its own ways
        remedy = (
            "reinstall it: pip install --force-reinstall 'wgpu>=0.32,<0.33'; device='numpy' works without it"
        )
        return [Check("gpu library", "problem", f"wgpu can't be imported: {error}", remedy)]
    return [Check("gpu library", "ok", f"wgpu {wgpu.__version__}")]


def adapters(_: EngineSettings) -> list[Check]:
    """Which GPU adapters there are, and whether our kernels fit their limits."""
    from doppler_core.device.adapters import REMEDY, list_adapters
    from doppler_core.plan.kernel_tables.f16 import FEATURE

    adapters = list_adapters()
    if not adapters:
        return [Check("gpu adapters", "note", f"none: models run on NumPy; for a GPU, {REMEDY}")]
    found = [Check("gpu adapters", "ok", "; ".join(str(adapter) for adapter in adapters))]
    if not any(adapter.hardware for adapter in adapters):
        found.append(
            Check(
                "hardware gpu",
                "note",
                "only software GPU adapters: device='auto' runs on NumPy, which is faster than they are",
            )
        )
    for adapter in adapters:
        limits = adapter.native.limits
        buffers = limits["max-storage-buffers-per-shader-stage"]
        binding = limits["max-storage-buffer-binding-size"]
        half = "f16 or f32" if FEATURE in adapter.native.features else f"f32 alone, as it has no {FEATURE}"
        detail = f"{buffers} storage buffers a kernel, {size(binding)} a binding, activations {half}"
        if buffers < _MIN_STORAGE_BUFFERS:
            remedy = "update its driver, or use another device"
            found.append(
                Check(f"limits of {adapter.name}", "problem", f"{detail}; 8 buffers are needed", remedy)
            )
        else:
            found.append(Check(f"limits of {adapter.name}", "ok", detail))
    return found


def numpy(_: EngineSettings) -> list[Check]:
    """Its BLAS, and whether that has more threads than there are processors."""
    import numpy as np
    import threadpoolctl

    np.dot(np.zeros(1), np.zeros(1))
    pools = [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not pools:
        return [Check("numpy", "note", f"{np.__version__}: its BLAS does not say how many threads it uses")]
    threads = max(pool["num_threads"] for pool in pools)
    detail = f"{np.__version__}, {pools[0]['internal_api']} with {threads} threads, {processors} processors"
    if threads > processors:
        return [
            Check(
                "numpy",
                "problem",
                detail,
                f"set OMP_NUM_THREADS={processors}: more threads than processors are slow",
            )
        ]
    return [Check("numpy", "ok", detail)]


def cache(settings: EngineSettings) -> list[Check]:
    """Whether the folder of converted models can be written, and has room."""
    folder = cache_dir(settings)
    move = "set DOPPLER_PLUGINS_CACHE_DIR to a folder that can be written"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder):
            pass
    except OSError as error:
        return [
            Check("cache folder", "problem", f"{folder} can't be written: {error.strerror or error}", move)
        ]
    free = shutil.disk_usage(folder).free
    detail = f"{folder}, {size(free)} free"
    if free < _MIN_FREE_BYTES:
        return [
            Check("cache folder", "problem", detail, f"free some disk (`doppler-plugins models`), or {move}")
        ]
    return [Check("cache folder", "ok", detail)]
