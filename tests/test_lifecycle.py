"""Memory and devices over a life of use: nothing grows, everything comes back, a lost device is said and survived."""

import gc
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from doppler_core.engine.engine import Engine
from doppler_core.errors import DeviceLostError
from doppler_core.settings import EngineSettings
from doppler_plugins.opening import open_engine

DEVICES = ["numpy", "wgpu"]


def resident() -> int:
    """Bytes of this process in memory."""
    gc.collect()
    return int(psutil.Process().memory_info().rss)


@pytest.fixture(params=DEVICES)
def engine(request: pytest.FixtureRequest, tiny_artifact: Path) -> Iterator[Engine]:
    with open_engine(tiny_artifact, EngineSettings(device=request.param)) as opened:
        yield opened


def test_calls_of_every_length_do_not_make_the_process_grow(engine: Engine) -> None:
    texts = [("salt " * length).strip() for length in range(1, 200)]
    for text in texts[::4]:
        engine.embed([text], overflow="truncate")
    before = resident()
    for text in texts:
        engine.embed([text], overflow="truncate")
    # 2 % of a Python process with NumPy and a GPU driver loaded is about 4 MB, 20 kB a call.
    assert resident() - before < 0.02 * before


CYCLES = """
import gc, sys, threading, psutil
from doppler_core.engine import memory
from doppler_core.settings import EngineSettings
from doppler_plugins import open_engine

def state():
    gc.collect()
    return memory.room(10**15), threading.active_count(), psutil.Process().memory_info().rss

def cycle():
    with open_engine(sys.argv[1], EngineSettings(device=sys.argv[2])) as engine:
        engine.embed(["salt"])

for _ in range(2):
    cycle()
print(*state())
for _ in range(5):
    cycle()
print(*state())
"""


@pytest.mark.parametrize("device", DEVICES)
def test_opening_and_closing_gives_everything_back(tiny_artifact: Path, device: str) -> None:
    """In a process of its own: here other tests' leavings would come and go meanwhile."""
    command = [sys.executable, "-c", CYCLES, str(tiny_artifact), device]
    out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
    before, after = ([int(number) for number in line.split()] for line in out.splitlines())
    assert after[:2] == before[:2]  # memory reserved, threads
    # A driver keeps some caches of its own; a model that stayed would be seen five times over.
    assert after[2] - before[2] < 0.1 * before[2]


@pytest.mark.parametrize("device", DEVICES)
def test_closing_one_of_two_engines_leaves_the_other_as_it_was(tiny_artifact: Path, device: str) -> None:
    first = open_engine(tiny_artifact, EngineSettings(device=device))
    with open_engine(tiny_artifact, EngineSettings(device=device, context_length=128)) as second:
        expected = second.embed(["salt"]).vectors
        first.close()
        assert np.array_equal(second.embed(["salt"]).vectors, expected)


def test_a_lost_device_is_an_error_at_once_and_a_new_engine_works(tiny_artifact: Path) -> None:
    settings = EngineSettings(device="wgpu")
    with open_engine(tiny_artifact, settings) as engine:
        expected = engine.embed(["salt"]).vectors
        engine._driver._executor._gpu.device.destroy()  # type: ignore[attr-defined]
        started = time.monotonic()
        with pytest.raises(DeviceLostError, match="open the model again"):
            engine.embed(["salt"])
        assert time.monotonic() - started < 5
    with open_engine(tiny_artifact, settings) as again:
        assert np.allclose(again.embed(["salt"]).vectors, expected, atol=1e-6)


def test_no_file_stays_open(tiny_artifact: Path) -> None:
    def files() -> int:
        return len(psutil.Process().open_files())

    before = files()
    with open_engine(tiny_artifact, EngineSettings(device="numpy")) as engine:
        engine.embed(["salt"])
    gc.collect()
    assert files() == before


AFTER_MAIN = """
import sys, threading
from doppler_core.settings import EngineSettings
from doppler_plugins import open_engine

engine = open_engine(sys.argv[1], EngineSettings(device="numpy"))
texts = ["salt " * 30] * 200

def late():
    threading.main_thread().join()
    print(engine.embed(texts).vectors.shape)

threading.Thread(target=late).start()
"""


def test_a_thread_may_embed_after_the_main_thread_has_ended(tiny_artifact: Path) -> None:
    """The interpreter then lets no pool start work; the engine works without one."""
    command = [sys.executable, "-c", AFTER_MAIN, str(tiny_artifact)]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert (found.stdout, found.stderr) == ("(200, 64)\n", "")
