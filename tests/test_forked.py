"""A process that used a GPU forks: its children are told, never wait, and leave with their own exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, os, signal, sys
from doppler_core.errors import EngineClosedError, NoAdapterError
from doppler_core.settings import EngineSettings
from doppler_plugins.opening import open_engine

model, close = sys.argv[1:]
engine = open_engine(model, EngineSettings(device="wgpu"))
engine.embed(["text"])
if close == "closed":
    engine.close()

def does_nothing():
    sys.exit(7)

def uses_the_engine():
    try:
        engine.embed(["text"])
    except EngineClosedError:
        sys.exit(7)

def opens_a_gpu():
    try:
        open_engine(model, EngineSettings(device="wgpu", context_length=64))
    except NoAdapterError as error:
        sys.exit(7 if "spawn" in str(error) else 2)

def opens_what_there_is():
    with open_engine(model, EngineSettings(device="auto", context_length=64)) as own:
        assert own.device == "numpy"
        assert own.embed(["text"]).vectors.shape == (1, 64)
    sys.exit(7)

ends = {}
for child in (does_nothing, uses_the_engine, opens_a_gpu, opens_what_there_is):
    if os.fork() == 0:
        signal.alarm(20)  # a child that waits for ever ends with a signal
        child()
        sys.exit(1)
    ends[child.__name__] = os.waitstatus_to_exitcode(os.wait()[1])
# Their ends took nothing from their parent.
with open_engine(model, EngineSettings(device="wgpu")) as again:
    assert again.embed(["text"]).vectors.shape == (1, 64)
print(json.dumps(ends))
"""


@pytest.mark.parametrize("engine", ["open", "closed"])
def test_children_of_a_process_that_used_a_gpu_end_as_they_mean_to(tiny_artifact: Path, engine: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, str(tiny_artifact), engine],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    ends = json.loads(done.stdout)
    assert set(ends.values()) == {7}, (ends, done.stderr)
