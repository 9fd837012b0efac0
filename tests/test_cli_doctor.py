"""`doctor`: each check tells ok from a problem, gives the remedy, and can't stop the others."""

import importlib.metadata
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
from plugin_fakes import write_distribution

from doppler_core.device import adapters as adapters_module
from doppler_core.device.adapters import GpuAdapter
from doppler_core.settings import EngineSettings, data_dir
from doppler_plugins.cli import machine_checks, program
from doppler_plugins.cli.check import Check
from doppler_plugins.cli.checks import run_checks

NAMES = [
    *("python", "libraries", "variables", "gpu library", "gpu adapters", "numpy", "cache folder", "plugins"),
    *("embedding", "generating", "denoising"),
]


@pytest.fixture
def settings(tmp_path: Path) -> EngineSettings:
    """NumPy and a cache of its own."""
    return EngineSettings(device="numpy", cache_dir=str(tmp_path / "cache"))


@pytest.fixture
def bundled(tiny_artifact: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiny artifact in place of the bundled model that embeds."""
    models = {name.replace("-", "_"): data_dir("models") / name for name in ("demo-chat", "demo-diffusion")}
    monkeypatch.setattr(
        "doppler_plugins.sources.bundled_models", lambda: {**models, "demo_embedding": tiny_artifact}
    )


def adapter(type: str, buffers: int = 10, features: Sequence[str] = ()) -> GpuAdapter:
    limits = {"max-storage-buffers-per-shader-stage": buffers, "max-storage-buffer-binding-size": 1 << 27}
    native = SimpleNamespace(limits=limits, features=features)
    return GpuAdapter(0, "Some GPU", type, "Vulkan", "driver 1", native)


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
    monkeypatch.setenv("DOPPLER_PLUGINS_PRECISION", "q8_0")  # which is for checkpoints
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
    assert "problem embedding" in out
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
    assert found(settings, "embedding").status == "ok"


@pytest.mark.usefixtures("bundled")
@pytest.mark.parametrize(
    ("there", "name", "status", "words"),
    [
        ([], "gpu adapters", "note", "mesa-vulkan-drivers"),
        ([adapter("CPU")], "hardware gpu", "note", "auto"),
        ([adapter("DiscreteGPU")], "limits of Some GPU", "ok", "10 storage buffers"),
        ([adapter("DiscreteGPU", buffers=4)], "limits of Some GPU", "problem", "8 buffers are needed"),
        (
            [adapter("DiscreteGPU")],
            "limits of Some GPU",
            "ok",
            "activations f32 alone, as it has no shader-f16",
        ),
        ([adapter("CPU", features=["shader-f16"])], "limits of Some GPU", "ok", "activations f16 or f32"),
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
    monkeypatch.setattr(machine_checks.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
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


@pytest.mark.parametrize(
    ("change", "remedy"),
    [
        ({"kernel_profile": "fast"}, "give another value, or leave out the option"),
        ({"device": "wgpu:no such"}, "name a GPU adapter that is listed above, or use --device numpy"),
        ({"memory_limit": 10}, "free memory, or leave out --memory-limit"),
    ],
)
def test_what_the_user_asked_for_is_told_apart_from_a_broken_installation(
    settings: EngineSettings, change: dict[str, Any], remedy: str
) -> None:
    for name in ("embedding", "generating", "denoising"):
        check = found(replace(settings, **change), name)
        assert check.status == "problem"
        assert check.remedy.startswith(remedy)


@pytest.mark.usefixtures("bundled")
def test_a_variable_that_is_misspelt_is_a_problem_and_one_of_a_plugin_is_not(
    settings: EngineSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOPPLER_PLUGINS_DEVCIE", "numpy")
    monkeypatch.setenv("DOPPLER_PLUGINS_STORE_TOKEN", "x")
    monkeypatch.setenv("DOPPLER_PLUGINS_CACHE_DIR", str(settings.cache_dir))
    told = {check.detail: check for check in run_checks(settings) if check.name == "variables"}
    good, misspelt, other = told.values()
    assert (good.status, good.detail) == ("ok", "DOPPLER_PLUGINS_CACHE_DIR")
    assert (misspelt.status, misspelt.remedy) == (
        "problem",
        "rename it to DOPPLER_PLUGINS_DEVICE, or unset it",
    )
    assert (other.status, other.remedy) == ("note", "")
    assert other.detail.startswith("DOPPLER_PLUGINS_STORE_TOKEN is read by nobody")


@pytest.mark.usefixtures("bundled")
def test_versions_are_told_and_a_library_that_is_missing_or_too_old_is_a_problem(
    settings: EngineSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    detail = found(settings, "libraries").detail
    for name in ("tokenizers", "llguidance", "langchain-core", "llama-index-core"):
        assert f"{name} {importlib.metadata.version(name)}" in detail
    there = {"tokenizers": "0.1", "jinja2": None}
    monkeypatch.setattr("doppler_plugins.requirements.installed", lambda name: there.get(name, "99"))
    monkeypatch.setattr(
        "doppler_plugins.requirements.importlib.metadata.requires",
        lambda _: ["tokenizers>=0.21", "jinja2>=3.1", "numpy>=2", "nothing; python_version < '3'"],
    )
    old, gone = (found(settings, f"library {name}") for name in there)
    assert (old.status, old.detail) == ("problem", "needs tokenizers>=0.21, found 0.1")
    assert (gone.detail, gone.remedy) == (
        "needs jinja2>=3.1, which is not installed",
        "pip install 'jinja2>=3.1'",
    )


def test_an_answer_with_wrong_numbers_is_a_problem(
    settings: EngineSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = SimpleNamespace(
        ids=(1,) * 8,
        logprobs=[SimpleNamespace(logprob=float("nan"))] * 8,
        timings=SimpleNamespace(tokens_per_second=1.0),
    )

    class Wrong:
        """An engine that does not know how likely anything is."""

        device = "wgpu of doubtful origin"

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None: ...

        def generate(self, *_: object, **options: object) -> Any:
            return answer

    monkeypatch.setattr("doppler_plugins.opening.open_engine", lambda *_: Wrong())
    check = found(settings, "generating")
    assert check.status == "problem"
    assert "device='numpy'" in check.remedy


def test_a_canvas_with_wrong_numbers_is_a_problem(
    settings: EngineSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = SimpleNamespace(
        ids=(1,), usage=SimpleNamespace(denoising_steps=1), timings=SimpleNamespace(tokens_per_second=1.0)
    )

    class Handle:
        def __iter__(self) -> Any:
            return iter([SimpleNamespace(canvas=SimpleNamespace(entropies=(0.5, float("nan"))))])

        def result(self) -> Any:
            return result

    class Wrong:
        """An engine that does not know how unsure it is."""

        device = "wgpu of doubtful origin"

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None: ...

        def submit(self, _: object) -> Handle:
            return Handle()

    monkeypatch.setattr("doppler_plugins.opening.open_engine", lambda *_: Wrong())
    check = found(settings, "denoising")
    assert check.status == "problem"
    assert "device='numpy'" in check.remedy


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
    check = found(settings, "embedding")
    assert check.status == "problem"
    assert "length 0.0000" in check.detail
    assert "device='numpy'" in check.remedy
