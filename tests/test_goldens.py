"""Both executors against transformers, on a tiny random checkpoint: the hidden state of every layer, and the vector."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from steps import tables

from doppler_core.device.adapters import choose_adapter
from doppler_core.device.executor import Executor
from doppler_core.device.numpy_executor import NumpyExecutor
from doppler_core.device.wgpu_executor import open_wgpu
from doppler_core.manifest.load import load_manifest
from doppler_core.plan.check import check
from doppler_core.plan.profile import apply_profile, profiles
from doppler_core.plan.room import Room
from doppler_core.weights.artifact import open_artifact
from doppler_plugins.conversion import model_type_of

LAYERS = 4
TEXTS = 3


@pytest.fixture(scope="module", params=["numpy", "gpu", "software"])
def executor(request: pytest.FixtureRequest, tiny_artifact: Path) -> Iterator[Executor]:
    """The tiny model on NumPy, and on the software GPU adapter with both kernel profiles that run there."""
    artifact = open_artifact(tiny_artifact)
    manifest = load_manifest(artifact.manifest)
    plan = model_type_of(manifest).lower(manifest, artifact.tensors, Room(256, 4, 256))
    if request.param == "numpy":
        made: Executor = NumpyExecutor(plan, artifact.tensors, max_rows=256, max_slots=4)
    else:
        plan = check(apply_profile(plan, profiles()[request.param]))
        made = open_wgpu(plan, artifact.tensors, choose_adapter("wgpu"), max_rows=256, max_slots=4)
    yield made
    made.close()


@pytest.fixture(scope="module")
def tolerance(executor: Executor) -> float:
    """Relative to the largest value of a layer. f32 both; a GPU sums in another order and approximates exp and tanh."""
    return 5e-5 if executor.device == "numpy" else 2e-4


def relative(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("text", range(TEXTS))
def test_every_layer_has_the_hidden_state_of_transformers(
    executor: Executor, golden: dict[str, np.ndarray], tolerance: float, text: int
) -> None:
    rows, slots = tables([golden[f"ids{text}"]], 64)
    names = ["embed", *(f"layers.{layer}.ffn_residual" for layer in range(LAYERS - 1)), "final_norm"]
    found = executor.capture("encode", rows, slots, names)
    for name, expected in zip(names, golden[f"hidden{text}"], strict=True):
        assert relative(found[name], expected) < tolerance, name


def test_texts_packed_into_one_step_have_the_vectors_of_transformers(
    executor: Executor, golden: dict[str, np.ndarray], tolerance: float
) -> None:
    rows, slots = tables([golden[f"ids{text}"] for text in range(TEXTS)], 64)
    found = executor.run("encode", rows, slots)
    assert relative(found, np.stack([golden[f"embedding{text}"] for text in range(TEXTS)])) < tolerance


def test_the_window_matters_for_the_long_text(golden: dict[str, np.ndarray]) -> None:
    """Sliding layers see 8 rows each way: a text within that could not tell a wrong window from the right one."""
    assert max(len(golden[f"ids{text}"]) for text in range(TEXTS)) > 3 * 16
