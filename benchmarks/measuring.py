"""A step in a process of its own: what it gives, how long it takes, the most anonymous memory that it holds.

Anonymous memory is what a process has for itself; pages of the files that it maps are the system's to keep or drop.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

_EVERY_SECONDS = 0.02


@dataclass(frozen=True)
class Measured:
    """A step that is done. peak_bytes: of anonymous memory, seen fifty times a second."""

    value: Any
    seconds: float
    peak_bytes: int


def measured(step: Callable[..., Any], *arguments: Any) -> Measured:
    """Run a function of a module in a new process; raises what it raises, BrokenProcessPool where the system ends it."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        process = pool.submit(os.getpid).result()
        begin, peak = time.perf_counter(), 0
        future = pool.submit(step, *arguments)
        while not future.done():
            peak = max(peak, anonymous_bytes(process))
            wait([future], _EVERY_SECONDS)
        return Measured(future.result(), time.perf_counter() - begin, peak)


def anonymous_bytes(process: int) -> int:
    """What a process has for itself now; 0 where it has ended. Linux."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except FileNotFoundError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))
