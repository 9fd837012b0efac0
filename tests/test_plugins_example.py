"""The example distribution, installed for real into a folder of its own and used by another process."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer
from weights_files import write_safetensors

EXAMPLE = Path(__file__).parent / "plugins" / "doppler_plugins_example"
DIMENSIONS = 64


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the example."""
    source = tmp_path_factory.mktemp("source") / "example"
    shutil.copytree(EXAMPLE, source)  # a build writes beside its source
    target = tmp_path_factory.mktemp("site")
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        *offline,
        "--target",
        str(target),
        str(source),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path) -> Path:
    """A folder as a publisher of such a model would ship it."""
    folder = tmp_path_factory.mktemp("models") / "static"
    folder.mkdir()
    table = np.random.default_rng(0).standard_normal((512, DIMENSIONS)).astype(np.float32)
    write_safetensors(folder / "model.safetensors", {"embed_tokens.weight": table})
    config = {
        "architectures": ["StaticVectorsModel"],
        "hidden_size": DIMENSIONS,
        "vocab_size": 512,
        "max_position_embeddings": 128,
    }
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tiny_checkpoint / name, folder / name)
    return folder


@pytest.fixture
def run(site: Path, tmp_path: Path) -> Any:
    """Run the command line with the example installed; its JSON."""

    def call(*arguments: object, installed: bool = True) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "DOPPLER_PLUGINS_CACHE_DIR": str(tmp_path / "cache"),
            "DOPPLER_PLUGINS_DEVICE": "numpy",
            "PYTHONPATH": str(site) if installed else "",
        }
        command = [sys.executable, "-c", "from doppler_plugins.cli import main; main()", *map(str, arguments)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    return call


def test_the_example_is_short() -> None:
    lines = sum(len(path.read_text("utf-8").splitlines()) for path in EXAMPLE.iterdir() if path.is_file())
    assert lines < 100


def test_an_installed_plugin_is_listed_and_its_check_passes(run: Any) -> None:
    done = run("plugins", "--check", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    (record,) = [one for one in json.loads(done.stdout) if one["distribution"] == "doppler-plugins-example"]
    assert record["status"] == "loaded"
    assert record["provides"] == ["model type static_vectors"]


def test_its_model_embeds_as_its_formula_says(run: Any, checkpoint: Path) -> None:
    texts = ["hello world", "the mean of the tokens", ""]
    done = run("embed", checkpoint, *texts, "--precision", "f32", "--json")
    assert done.returncode == 0, done.stderr
    found = np.array(json.loads(done.stdout)["vectors"], np.float32)
    data = (checkpoint / "model.safetensors").read_bytes()
    table = np.frombuffer(data[-512 * DIMENSIONS * 4 :], np.float32).reshape(512, DIMENSIONS)
    tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    for text, vector in zip(texts, found, strict=True):
        mean = table[tokenizer.encode(text).ids].mean(0)
        # The mean and the norm of 64 values in f32, summed in another order.
        assert vector == pytest.approx(mean / np.linalg.norm(mean), abs=1e-6)


def test_a_checkpoint_that_does_not_say_how_long_a_text_may_be_is_told_where(
    run: Any, checkpoint: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(checkpoint, tmp_path / "short"))
    config = json.loads((folder / "config.json").read_text())
    del config["max_position_embeddings"]
    (folder / "config.json").write_text(json.dumps(config))
    done = run("embed", folder, "text")
    assert done.returncode == 2
    assert "max_position_embeddings of config.json" in done.stderr


def test_its_plan_is_three_ops(run: Any, checkpoint: Path) -> None:
    plan = json.loads(run("plan", checkpoint, "--json").stdout)
    assert [op["meaning"] for op in plan["phases"]["encode"]] == ["gather", "pool", "l2norm"]


def test_without_the_plugin_the_checkpoint_is_refused_with_a_way_out(run: Any, checkpoint: Path) -> None:
    done = run("embed", checkpoint, "text", installed=False)
    assert done.returncode == 2
    assert "StaticVectorsModel" in done.stderr
    assert "install a plugin" in done.stderr


def test_without_the_plugin_its_artifact_names_what_is_missing(
    run: Any, checkpoint: Path, tmp_path: Path
) -> None:
    artifact = tmp_path / "artifact"
    assert run("convert", checkpoint, "--out", artifact).returncode == 0
    assert run("embed", artifact, "text").returncode == 0
    done = run("embed", artifact, "text", installed=False)
    assert done.returncode == 2
    assert "no plugin registers the model type 'static_vectors'" in done.stderr
