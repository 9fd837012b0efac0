"""What many tests share: the tiny checkpoint with its goldens, converted once, and the versions that matter."""

import gc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from doppler_core.settings import EngineSettings
from doppler_plugins.conversion import convert_checkpoint, resolve_checkpoint
from tests.causal_fakes import Opening, opening, write_tokenizer

GOLDENS = Path(__file__).parent / "goldens"

# Machines are shared and noisy: how long an example takes says nothing of the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_report_header() -> list[str]:
    """The versions and the GPU adapters that a failure may depend on."""
    import wgpu

    from doppler_core.device.adapters import list_adapters

    adapters = "; ".join(map(str, list_adapters())) or "none"
    return [f"numpy {np.__version__}, wgpu {wgpu.__version__}", f"GPU adapters: {adapters}"]


@pytest.fixture(scope="module", autouse=True)
def _collect_engines() -> None:
    """Engines that the module before dropped are closed now, and not when the collector happens to run."""
    gc.collect()


@pytest.fixture(scope="session")
def tiny_checkpoint() -> Path:
    """A random EmbeddingGemma of four layers, as a publisher would ship it (tests/goldens/make_embedding.py)."""
    return GOLDENS / "embedding"


@pytest.fixture(scope="session")
def tiny_artifact(tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That checkpoint converted with f32 weights: its bf16 values are exact in f32 and not in f16."""
    out = tmp_path_factory.mktemp("models") / "tiny-f32"
    convert_checkpoint(
        resolve_checkpoint(tiny_checkpoint, EngineSettings(precision="f32")), EngineSettings(), out
    )
    return out


@pytest.fixture(scope="session")
def causal_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer.json of the size of causal_fakes' vocabulary."""
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer") / "tokenizer.json")


@pytest.fixture
def opened(causal_tokenizer: Path) -> Iterator[Opening]:
    """Opens engines that generate, on executors that make up their tokens; all are closed with the test."""
    with opening(causal_tokenizer) as open_:
        yield open_


@pytest.fixture(scope="session")
def golden(tiny_checkpoint: Path) -> dict[str, np.ndarray]:
    """What transformers computes for it: ids, hidden states [layers + 1, T, 64], embeddings, per text."""
    with np.load(tiny_checkpoint / "golden.npz") as data:
        return dict(data)
