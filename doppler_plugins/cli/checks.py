"""The checks of `doctor`, each alone: what it looks at, what it found, the remedy. None can stop the others.

A `note` is worth knowing and needs no remedy; a `problem` has one.
"""

import os
import platform
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from doppler_core.errors import DopplerError
from doppler_core.settings import EngineSettings, cache_dir
from doppler_plugins.cli.output import size
from doppler_plugins.discovery import own_version

_BUNDLED = "demo-embedding"
_MIN_STORAGE_BUFFERS = 8  # WebGPU's own default, and the most that a kernel of ours binds
_MIN_FREE_BYTES = 2 << 30  # a converted EmbeddingGemma in f16, and room to write the next


@dataclass(frozen=True)
class Check:
    """What one check found."""

    name: str
    status: Literal["ok", "note", "problem"]
    detail: str
    remedy: str = ""


def run_checks(settings: EngineSettings) -> list[Check]:
    """All checks in a fixed order; one that raises is a problem with that message."""
    found: list[Check] = []
    for name, remedy, check in _CHECKS:
        try:
            found += check(settings)
        except Exception as error:  # noqa: BLE001 - a check must never hide the others
            kind = "" if isinstance(error, DopplerError) else f"{type(error).__name__}: "
            found.append(Check(name, "problem", f"{kind}{error}", remedy))
    return found


def _python(_: EngineSettings) -> list[Check]:
    detail = f"{platform.python_version()} on {platform.platform()}, doppler-plugins {own_version()}"
    # Installers refuse older ones; a source tree on the path does not.
    if tuple(map(int, platform.python_version_tuple()[:2])) < (3, 11):
        return [Check("python", "problem", detail, "use Python 3.11 or newer")]
    return [Check("python", "ok", detail)]


def _gpu_library(_: EngineSettings) -> list[Check]:
    try:
        import wgpu
        import wgpu.backends.wgpu_native
    except Exception as error:  # noqa: BLE001 - a native library fails in its own ways
        remedy = (
            "reinstall it: pip install --force-reinstall 'wgpu>=0.32,<0.33'; device='numpy' works without it"
        )
        return [Check("gpu library", "problem", f"wgpu can't be imported: {error}", remedy)]
    return [Check("gpu library", "ok", f"wgpu {wgpu.__version__}")]


def _adapters(_: EngineSettings) -> list[Check]:
    from doppler_core.device.adapters import REMEDY, list_adapters

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
        detail = f"{buffers} storage buffers a kernel, {size(binding)} a binding"
        if buffers < _MIN_STORAGE_BUFFERS:
            remedy = "update its driver, or use another device"
            found.append(
                Check(f"limits of {adapter.name}", "problem", f"{detail}; 8 buffers are needed", remedy)
            )
        else:
            found.append(Check(f"limits of {adapter.name}", "ok", detail))
    return found


def _numpy(_: EngineSettings) -> list[Check]:
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


def _cache(settings: EngineSettings) -> list[Check]:
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


def _plugins(_: EngineSettings) -> list[Check]:
    from doppler_plugins.records import Policy
    from doppler_plugins.registry import build_registry

    policy = Policy.from_environment()
    records = build_registry(policy=Policy(policy.allow, policy.block)).check()
    problems = [record for record in records if record.is_problem]
    remedy = "update or uninstall it, or name it in DOPPLER_PLUGINS_BLOCK"
    found = [Check(f"plugin {record.name}", "problem", record.sentence, remedy) for record in problems]
    if not problems:
        detail = ", ".join(f"{record.name} ({record.status})" for record in records)
        found = [Check("plugins", "ok", detail)]
    for record in records:
        notes = record.warnings if record.status != "unavailable" else (f"optional, {record.reason}",)
        found += [Check(f"plugin {record.name}", "note", note) for note in notes]
    return found


def _bundled_model(settings: EngineSettings) -> list[Check]:
    import numpy as np

    from doppler_plugins.opening import open_engine

    # A precision is for checkpoints; the bundled model is converted.
    with open_engine(_BUNDLED, replace(settings, precision=None)) as engine:
        result = engine.embed(["A cup of tea cools faster than a full pot."])
        length = float(np.linalg.norm(result.vectors[0]))
        detail = f"{_BUNDLED} on {engine.device}: {result.tokens[0]} tokens, a vector of length {length:.4f}"
    # The vector is divided by its length in f32: five digits hold.
    if not abs(length - 1) < 1e-4:
        return [
            Check("bundled model", "problem", detail, "try device='numpy', and report the GPU adapter's name")
        ]
    return [Check("bundled model", "ok", detail)]


_REPORT = "report it, with the output of `doppler-plugins doctor --json`"
_CHECKS: tuple[tuple[str, str, Callable[[EngineSettings], list[Check]]], ...] = (
    ("python", _REPORT, _python),
    ("gpu library", _REPORT, _gpu_library),
    ("gpu adapters", "update the GPU driver, or use device='numpy'", _adapters),
    ("numpy", "reinstall it: pip install --force-reinstall numpy", _numpy),
    ("cache folder", _REPORT, _cache),
    ("plugins", _REPORT, _plugins),
    ("bundled model", "try --device numpy; if that fails too, reinstall doppler-plugins", _bundled_model),
)
