"""`import doppler_plugins` is cheap, and pulls in nothing that an application did not ask for."""

import json
import subprocess
import sys

import pytest

# The goal is 0.3 s on an idle machine, and the module list below is what keeps it. A busy CI machine with two cores
# was seen to take five times as long for the same work, so the time itself is only held against a hang.
GENEROUS_SECONDS = 1.5

HEAVY = (
    "numpy",
    "wgpu",
    "cffi",
    "tokenizers",
    "pydantic",
    "huggingface_hub",
    "click",
    "pluggy",
    "llama_index",
)
FRAMEWORKS = ("langchain_core", "llama_index", "torch", "transformers")


def run(code: str) -> dict[str, object]:
    """Run code in a fresh interpreter; it sets `found`."""
    script = f"import json, sys, time\n{code}\nprint(json.dumps(found))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result: dict[str, object] = json.loads(done.stdout)
    return result


def test_importing_the_package_imports_nothing_heavy() -> None:
    found = run(
        "begin = time.perf_counter()\nimport doppler_plugins\n"
        "found = {'seconds': time.perf_counter() - begin, 'modules': sorted(sys.modules)}"
    )
    modules = found["modules"]
    assert isinstance(modules, list)
    assert not [name for name in (*HEAVY, *FRAMEWORKS) if name in modules]
    seconds = found["seconds"]
    print(f"import doppler_plugins: {seconds:.4f} s")
    assert isinstance(seconds, float)
    assert seconds < GENEROUS_SECONDS


@pytest.mark.parametrize(
    "code",
    [
        "import doppler_plugins; doppler_plugins.plugins().records",
        "from doppler_plugins import EngineHandle, EngineSettings; EngineHandle('demo-embedding')",
        "import doppler_plugins.cli",
    ],
    ids=["listing plugins", "constructing a handle", "the command line"],
)
def test_nothing_is_opened_before_it_is_used(code: str) -> None:
    found = run(f"{code}\nfound = {{'modules': sorted(sys.modules)}}")
    modules = found["modules"]
    assert isinstance(modules, list)
    assert not [name for name in (*FRAMEWORKS, "wgpu", "numpy", "tokenizers") if name in modules]


def test_importing_starts_no_thread_and_reads_no_variable() -> None:
    found = run(
        "import os, threading\n"
        "class Watched(dict):\n"
        "    read = []\n"
        "    def get(self, key, default=None):\n"
        "        self.read.append(key)\n"
        "        return dict.get(self, key, default)\n"
        "    def __getitem__(self, key):\n"
        "        self.read.append(key)\n"
        "        return dict.__getitem__(self, key)\n"
        "os.environ = Watched(os.environ)\n"
        "import doppler_plugins, doppler_plugins.handle, doppler_plugins.sources\n"
        "found = {'threads': threading.active_count(),\n"
        "         'read': [key for key in Watched.read if key.startswith('DOPPLER')]}"
    )
    assert found == {"threads": 1, "read": []}
