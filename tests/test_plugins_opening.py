"""Opening the tiny checkpoint in every way there is: shared, converted once, with another manifest, under limits."""

import json
import logging
import os
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plugin_fakes import write_distribution

from doppler_core.errors import (
    ContradictionError,
    DigestError,
    EngineClosedError,
    LimitError,
    ManifestError,
    ModelNotFoundError,
    PluginError,
    SettingsError,
)
from doppler_core.plan.cost import numpy_matrices, numpy_resident
from doppler_core.settings import EngineSettings
from doppler_plugins import EngineHandle, open_engine
from doppler_plugins import registry as registry_module
from doppler_plugins.conversion import resolve_checkpoint
from doppler_plugins.opening import plan_of
from doppler_plugins.sharing import open_count

TEXTS = ["one text", "and another, which is longer", ""]


@pytest.fixture
def settings(tmp_path: Path) -> EngineSettings:
    """NumPy, f32, and a cache of its own."""
    return EngineSettings(device="numpy", precision="f32", cache_dir=str(tmp_path / "cache"))


@pytest.fixture
def copied(tiny_artifact: Path, tmp_path: Path) -> Path:
    """The tiny artifact, to be changed."""
    return Path(shutil.copytree(tiny_artifact, tmp_path / "copied"))


def edit(folder: Path, change: Any) -> dict[str, Any]:
    """Change the manifest of an artifact (or a manifest file) in place."""
    path = folder / "manifest.json" if folder.is_dir() else folder
    data: dict[str, Any] = json.loads(path.read_text("utf-8"))
    change(data)
    path.write_text(json.dumps(data), "utf-8")
    return data


def test_a_checkpoint_is_converted_once_and_gives_what_its_artifact_gives(
    tiny_checkpoint: Path, tiny_artifact: Path, settings: EngineSettings
) -> None:
    stages: list[str] = []
    with open_engine(tiny_checkpoint, settings, lambda stage, done, total: stages.append(stage)) as engine:
        vectors = engine.embed(TEXTS).vectors
    assert "converting" in stages
    stages.clear()
    with open_engine(tiny_checkpoint, settings, lambda stage, done, total: stages.append(stage)) as engine:
        assert np.array_equal(engine.embed(TEXTS).vectors, vectors)
    assert "converting" not in stages
    with open_engine(tiny_artifact, settings) as engine:
        assert np.array_equal(engine.embed(TEXTS).vectors, vectors)
    assert settings.cache_dir
    assert len(list(Path(settings.cache_dir).iterdir())) == 1


def test_a_copy_of_a_checkpoint_shares_its_artifact_and_a_changed_weight_does_not(
    tiny_checkpoint: Path, settings: EngineSettings, tmp_path: Path
) -> None:
    assert settings.cache_dir
    open_engine(tiny_checkpoint, settings).close()
    copy = Path(shutil.copytree(tiny_checkpoint, tmp_path / tiny_checkpoint.name))
    open_engine(copy, settings).close()
    assert len(list(Path(settings.cache_dir).iterdir())) == 1
    weights = copy / "model.safetensors"
    status = weights.stat()
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1  # in the last tensor, which is small: within what is sampled
    weights.write_bytes(data)
    os.utime(weights, ns=(status.st_atime_ns, status.st_mtime_ns))
    open_engine(copy, settings).close()
    assert len(list(Path(settings.cache_dir).iterdir())) == 2


def test_equal_settings_share_an_engine_and_different_ones_do_not(
    tiny_artifact: Path, settings: EngineSettings
) -> None:
    first = open_engine(tiny_artifact, settings)
    again = open_engine(str(tiny_artifact), replace(settings, offline=True, precision=None))
    other = open_engine(tiny_artifact, replace(settings, context_length=32))
    assert open_count() == 2
    first.close()
    assert again.embed(["still open"]).vectors.shape == (1, 64)
    with pytest.raises(EngineClosedError):
        first.embed(["closed"])
    again.close()
    other.close()
    assert open_count() == 0


def test_eight_threads_open_use_and_close_at_once(tiny_artifact: Path, settings: EngineSettings) -> None:
    with open_engine(tiny_artifact, settings) as engine:
        expected = engine.embed(TEXTS).vectors
    found: list[Any] = []

    def work() -> None:
        for _ in range(3):
            with open_engine(tiny_artifact, settings) as engine:
                found.append(engine.embed(TEXTS).vectors)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 24
    # Requests share steps, and a matrix product of another height may sum in another order.
    assert all(np.allclose(vectors, expected, atol=1e-5) for vectors in found)
    assert open_count() == 0


def test_a_handle_opens_the_real_thing(tiny_artifact: Path, settings: EngineSettings) -> None:
    handle = EngineHandle(str(tiny_artifact), settings)
    assert handle.engine().embed(["text"]).tokens[0] > 1
    assert handle.engine().capabilities.embeds
    handle.close()
    assert open_count() == 0


def test_a_context_length_bounds_texts_and_says_so_when_it_is_too_large(
    tiny_artifact: Path, settings: EngineSettings
) -> None:
    with open_engine(tiny_artifact, replace(settings, context_length=12)) as engine:
        assert engine.capabilities.context_length == 12
        assert engine.embed(["word " * 50], overflow="truncate").tokens == (12,)
    with pytest.raises(SettingsError, match="takes 256 tokens at most"):
        open_engine(tiny_artifact, replace(settings, context_length=257))


def test_a_precision_that_an_artifact_does_not_have_is_refused(
    tiny_artifact: Path, settings: EngineSettings
) -> None:
    with pytest.raises(SettingsError, match="is an artifact with f32 weights"):
        open_engine(tiny_artifact, replace(settings, precision="f16"))


def test_another_manifest_takes_its_nulls_from_the_artifact(
    tiny_artifact: Path, settings: EngineSettings, tmp_path: Path
) -> None:
    own = json.loads((tiny_artifact / "manifest.json").read_text())
    path = tmp_path / "other.json"
    other = json.loads(json.dumps(own))
    other["inference"]["attention"]["slidingWindow"] = None
    other["text"]["prompts"] = {"document": "read this: ", "query": "find: "}
    del other["architecture"], other["modelType"]
    path.write_text(json.dumps(other))
    with open_engine(tiny_artifact, settings) as engine:
        plain, identity = engine.embed(["text"]).vectors, engine.identity
    with open_engine(tiny_artifact, replace(settings, manifest=str(path))) as engine:
        assert engine.capabilities.prompts == ("document", "query")
        assert engine.identity != identity
        assert not np.allclose(engine.embed(["text"]).vectors, plain)
        assert np.array_equal(engine.embed(["text"], prompt="title: none | text: ").vectors, plain)


def test_a_checkpoint_takes_the_manifest_of_the_settings_by_path_or_shipped_name(
    tiny_checkpoint: Path, settings: EngineSettings, tmp_path: Path
) -> None:
    template = Path(__file__).parents[1] / "manifests" / "templates" / "gemma3-text-embedding.json"
    data = json.loads(template.read_text())
    data["output"]["modelBaseId"] = "my-own"
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(data))
    mine = replace(settings, precision=None, manifest=str(path))
    assert resolve_checkpoint(tiny_checkpoint, mine).manifest.output.model_base_id == "my-own"
    # The shipped manifest is another model's: what contradicts the checkpoint's own file is an error, never a guess.
    shipped = replace(settings, precision=None, manifest="google-embeddinggemma-300m-f16")
    with pytest.raises(ContradictionError):
        resolve_checkpoint(tiny_checkpoint, shipped)
    with pytest.raises(ModelNotFoundError, match="google-embeddinggemma-300m-f16"):
        resolve_checkpoint(tiny_checkpoint, replace(shipped, manifest="google-embeddinggemma-300m-f61"))


def test_a_changed_digest_is_refused_at_every_open(copied: Path, settings: EngineSettings) -> None:
    open_engine(copied, settings).close()

    def spoil(data: dict[str, Any]) -> None:
        data["execution"]["kernels"]["rope"]["digest"] = "sha256:" + "0" * 64

    edit(copied, spoil)
    with pytest.raises(DigestError, match=r"rope\.wgsl"):
        open_engine(copied, settings)
    assert open_count() == 0


def test_a_checkpoint_runs_with_this_versions_manifest_even_if_its_artifact_is_older(
    tiny_checkpoint: Path, settings: EngineSettings
) -> None:
    assert settings.cache_dir
    open_engine(tiny_checkpoint, settings).close()
    (artifact,) = Path(settings.cache_dir).iterdir()

    def age(data: dict[str, Any]) -> None:
        data["execution"]["kernels"]["rope"]["digest"] = "sha256:" + "0" * 64

    edit(artifact, age)
    open_engine(tiny_checkpoint, settings).close()


def test_an_unknown_model_type_names_the_known_ones_and_the_plugins_that_failed(
    copied: Path, settings: EngineSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_distribution(tmp_path / "site", "sick", {"doppler_plugins": {"sick": "no_such_module_anywhere"}})
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setattr(registry_module, "_registry", None)
    edit(copied, lambda data: data.update(modelType="embeding"))
    with pytest.raises(PluginError) as raised:
        open_engine(copied, settings)
    assert "did you mean embedding?" in str(raised.value)
    assert "no_such_module_anywhere" in str(raised.value)


def test_an_unresolved_manifest_in_an_artifact_is_an_error(copied: Path, settings: EngineSettings) -> None:
    edit(copied, lambda data: data.update(modelType=None))
    with pytest.raises(ManifestError, match="modelType is null"):
        open_engine(copied, settings)


def test_a_checkpoint_that_no_manifest_fits_says_which_architectures_it_has(
    tiny_checkpoint: Path, settings: EngineSettings, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(tiny_checkpoint, tmp_path / "unknown"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["RwkvForCausalLM"]}))
    with pytest.raises(ModelNotFoundError, match="RwkvForCausalLM"):
        open_engine(folder, settings)


def test_a_checkpoint_whose_model_type_can_not_be_imported_says_why(
    tiny_checkpoint: Path, settings: EngineSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, folder = tmp_path / "site", Path(shutil.copytree(tiny_checkpoint, tmp_path / "unknown"))
    write_distribution(
        site, "sick", {"doppler_plugins.model_types": {"rwkv": "no_such_module_anywhere:Rwkv"}}
    )
    monkeypatch.syspath_prepend(site)
    monkeypatch.setattr(registry_module, "_registry", None)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["RwkvForCausalLM"]}))
    with pytest.raises(
        ModelNotFoundError, match=r"plugin not loaded: rwkv .*No module named 'no_such_module"
    ):
        open_engine(folder, settings)


@pytest.mark.parametrize("settings", [{"device": "numpy"}, "numpy"], ids=repr)
def test_settings_of_another_type_are_refused_by_their_name(settings: Any) -> None:
    for function in (open_engine, plan_of):
        with pytest.raises(
            TypeError, match=f"settings is {type(settings).__name__}: expected EngineSettings"
        ):
            function("demo-embedding", settings)


def test_numpy_runs_in_less_memory_than_the_expanded_weights_need(
    tiny_checkpoint: Path, settings: EngineSettings
) -> None:
    half = replace(settings, precision="f16")
    with open_engine(tiny_checkpoint, half) as engine:
        whole, plain = engine.memory_bytes, engine.embed(TEXTS).vectors
        need, matrices = numpy_resident(engine.plan), numpy_matrices(engine.plan)
    with open_engine(tiny_checkpoint, replace(half, memory_limit=need - matrices // 2)) as engine:
        assert engine.memory_bytes < whole
        # The same f16 weights, expanded in blocks: the products may sum in another order.
        assert np.allclose(engine.embed(TEXTS).vectors, plain, atol=1e-5)


def test_numpy_needs_room_for_the_buffers_of_a_step(tiny_artifact: Path, settings: EngineSettings) -> None:
    with pytest.raises(LimitError, match="memory_limit=1,000"):
        open_engine(tiny_artifact, replace(settings, memory_limit=1000))
    assert open_count() == 0


def test_a_gpu_that_may_not_hold_the_weights_is_refused_before_loading(
    tiny_artifact: Path, settings: EngineSettings
) -> None:
    small = replace(settings, device="wgpu", memory_limit=1000)
    with pytest.raises(LimitError, match="memory_limit=1,000"):
        open_engine(tiny_artifact, small)
    assert open_count() == 0


def test_both_devices_give_the_same_vectors_and_tell_their_names(
    tiny_artifact: Path, settings: EngineSettings
) -> None:
    with open_engine(tiny_artifact, settings) as numpy:
        expected, one = numpy.embed(TEXTS).vectors, numpy.identity
        assert numpy.device == "numpy"
    with open_engine(tiny_artifact, replace(settings, device="wgpu")) as gpu:
        # Relative 2e-4 is what the executors are held to per layer; the vectors have length 1.
        assert np.abs(gpu.embed(TEXTS).vectors - expected).max() < 2e-4
        assert gpu.device.startswith("wgpu ")
        assert gpu.identity != one


def test_auto_falls_back_to_numpy_and_says_why(
    tiny_artifact: Path,
    settings: EngineSettings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("doppler_core.device.adapters.list_adapters", list)
    caplog.set_level(logging.INFO, "doppler_plugins")
    with open_engine(tiny_artifact, replace(settings, device="auto")) as engine:
        assert engine.device == "numpy"
    assert "runs on NumPy" in caplog.text


def test_the_plan_is_the_one_that_runs(tiny_artifact: Path, settings: EngineSettings) -> None:
    with open_engine(tiny_artifact, settings) as engine:
        assert plan_of(tiny_artifact, settings) == engine.plan
    with open_engine(tiny_artifact, replace(settings, device="wgpu")) as engine:
        plan = plan_of(tiny_artifact, replace(settings, device="wgpu"))
        assert plan == engine.plan
        assert plan.profile is not None


def test_a_plugin_sees_each_engine_once_and_its_failure_hurts_nobody(
    tiny_artifact: Path, settings: EngineSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = """
        import doppler_plugins
        seen = []

        @doppler_plugins.hookimpl
        def doppler_engine_opened(engine):
            seen.append(engine.model_id)
            raise RuntimeError("not my day")
    """
    write_distribution(
        tmp_path, "watch", {"doppler_plugins": {"watch": "watch_module"}}, {"watch_module": watcher}
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry_module, "_registry", None)
    with open_engine(tiny_artifact, settings) as engine, open_engine(tiny_artifact, settings):
        assert engine.embed(["text"]).vectors.shape == (1, 64)
    assert sys.modules["watch_module"].seen == [engine.model_id]


def test_a_fork_after_opening_raises_in_the_child_and_a_new_process_works(
    tiny_artifact: Path, settings: EngineSettings
) -> None:
    code = (
        "import os, sys\n"
        "from doppler_plugins import open_engine, EngineSettings\n"
        "from doppler_core.errors import EngineClosedError\n"
        "engine = open_engine(sys.argv[1], EngineSettings(device='numpy'))\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try:\n"
        "        engine.embed(['text'])\n"
        "    except EngineClosedError:\n"
        "        os._exit(7)\n"
        "    os._exit(1)\n"
        "status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n"
        "assert engine.embed(['text']).vectors.shape == (1, 64)\n"
        "print(status)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(tiny_artifact)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.stdout.strip(), done.returncode) == ("7", 0), done.stderr
