"""`doctor`: each check tells ok from a problem, gives the remedy, and can't stop the others."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
from plugin_fakes import write_distribution

from doppler_core.device import adapters as adapters_module
from doppler_core.device.adapters import GpuAdapter
from doppler_core.settings import EngineSettings
from doppler_plugins.cli import checks, program
from doppler_plugins.cli.checks import Check, run_checks

NAMES = ["python", "gpu library", "gpu adapters", "numpy", "cache folder", "plugins", "bundled model"]


@pytest.fixture
def settings(tmp_path: Path) -> EngineSettings:
    """NumPy and a cache of its own."""
    return EngineSettings(device="numpy", cache_dir=str(tmp_path / "cache"))


@pytest.fixture
def bundled(tiny_artifact: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiny artifact in place of the bundled model."""
    monkeypatch.setattr("doppler_plugins.sources.bundled_models", lambda: {"demo_embedding": tiny_artifact})


def adapter(type: str, buffers: int = 10) -> GpuAdapter:
    limits = {"max-storage-buffers-per-shader-stage": buffers, "max-storage-buffer-binding-size": 1 << 27}
    return GpuAdapter(0, "Some GPU", type, "Vulkan", "driver 1", SimpleNamespace(limits=limits))


def found(settings: EngineSettings, name: str) -> Check:
    (check,) = [check for check in run_checks(settings) if check.name == name]
    return check


@pytest.mark.usefixtures("bundled")
def test_an_optional_adapter_that_is_not_installed_comes_with_its_pip_line(
    settings: EngineSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = 'thing>=1, which is not installed: pip install "doppler-plugins[langchain]"'
    monkeypatch.setattr(
        "doppler_plugins.registry.explain_missing",
        lambda name, _: line if name.startswith("langchain") else "",
    )
    assert "langchain.embeddings (unavailable)" in found(settings, "plugins").detail
    note = found(settings, "plugin langchain.embeddings")
    assert (note.status, note.detail) == ("note", f"optional, needs {line}")


@pytest.mark.usefixtures("bundled")
def test_every_check_runs_and_this_machine_passes(
    settings: EngineSettings, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = run_checks(settings)
    assert [name for name in NAMES if name in {check.name for check in checks}] == NAMES
    assert not [check for check in checks if check.status == "problem"]
    assert all(check.remedy == "" for check in checks)
    code = program.run(["doctor", "--json", "--device", "numpy", "--cache-dir", str(settings.cache_dir)])
    assert code == 0
    assert [check["name"] for check in json.loads(capsys.readouterr().out)] == [
        check.name for check in checks
    ]


def test_a_problem_gives_exit_code_one_and_prints_its_remedy(
    settings: EngineSettings, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("doppler_plugins.sources.bundled_models", dict)
    code = program.run(["doctor", "--cache-dir", str(settings.cache_dir)])
    out = capsys.readouterr().out
    assert code == 1
    assert "problem bundled model" in out
    assert "remedy: " in out


@pytest.mark.usefixtures("bundled")
def test_a_check_that_raises_is_a_problem_and_the_others_still_run(
    settings: EngineSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*_: object) -> Any:
        raise RuntimeError("the driver fell over")

    monkeypatch.setattr(adapters_module, "list_adapters", break_down)
    check = found(settings, "gpu adapters")
    assert check.status == "problem"
    assert "the driver fell over" in check.detail
    assert check.remedy
    assert found(settings, "bundled model").status == "ok"


@pytest.mark.usefixtures("bundled")
@pytest.mark.parametrize(
    ("there", "name", "status", "words"),
    [
        ([], "gpu adapters", "note", "mesa-vulkan-drivers"),
        ([adapter("CPU")], "hardware gpu", "note", "auto"),
        ([adapter("DiscreteGPU")], "limits of Some GPU", "ok", "10 storage buffers"),
        ([adapter("DiscreteGPU", buffers=4)], "limits of Some GPU", "problem", "8 buffers are needed"),
    ],
)
def test_gpu_adapters_are_judged_by_what_they_are(
    settings: EngineSettings,
    monkeypatch: pytest.MonkeyPatch,
    there: list[GpuAdapter],
    name: str,
    status: str,
    words: str,
) -> None:
    monkeypatch.setattr(adapters_module, "list_adapters", lambda: there)
    check = found(settings, name)
    assert check.status == status
    assert words in check.detail


@pytest.mark.usefixtures("bundled")
def test_more_blas_threads_than_processors_are_a_problem(
    settings: EngineSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools = [{"user_api": "blas", "internal_api": "openblas", "num_threads": 64}]
    monkeypatch.setattr("threadpoolctl.threadpool_info", lambda: pools)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1}, raising=False)
    check = found(settings, "numpy")
    assert check.status == "problem"
    assert "OMP_NUM_THREADS=2" in check.remedy


@pytest.mark.usefixtures("bundled")
def test_a_cache_that_can_not_be_written_or_is_full_is_a_problem(
    settings: EngineSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    blocked = EngineSettings(device="numpy", cache_dir=str(tmp_path / "file" / "cache"))
    check = found(blocked, "cache folder")
    assert check.status == "problem"
    assert "DOPPLER_PLUGINS_CACHE_DIR" in check.remedy
    monkeypatch.setattr(checks.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    assert "free some disk" in found(settings, "cache folder").remedy


@pytest.mark.usefixtures("bundled")
def test_a_broken_plugin_is_a_problem_with_its_reason(
    settings: EngineSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_distribution(tmp_path, "sick", {"doppler_plugins": {"sick": "no_such_module_anywhere"}})
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("DOPPLER_PLUGINS_STRICT", "1")  # doctor must list what strict would raise
    check = found(settings, "plugin sick")
    assert check.status == "problem"
    assert "no_such_module_anywhere" in check.detail
    assert "DOPPLER_PLUGINS_BLOCK" in check.remedy


def test_a_bundled_model_with_wrong_numbers_is_a_problem(
    settings: EngineSettings, tiny_artifact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import numpy as np

    from doppler_core.engine.request import EmbedResult

    class Wrong:
        """An engine whose vectors have no length."""

        device = "wgpu of doubtful origin"

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None: ...

        def embed(self, texts: list[str]) -> EmbedResult:
            return EmbedResult(np.zeros((1, 4), np.float32), (5,))

    monkeypatch.setattr("doppler_plugins.opening.open_engine", lambda *_: Wrong())
    check = found(settings, "bundled model")
    assert check.status == "problem"
    assert "length 0.0000" in check.detail
    assert "device='numpy'" in check.remedy
