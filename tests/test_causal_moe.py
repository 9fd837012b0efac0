"""A Gemma 4 with experts: its router and its experts against transformers, and the model whole through an engine.

Layers, logits and tokens are test_causal_goldens' and test_causal_executors', which run it beside the dense models.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import Oracle, Values
from test_causal_executors import artifact, lowered
from test_causal_goldens import CHUNK, FOLDER, relative, step

from doppler_core.device.adapters import choose_adapter
from doppler_core.device.numpy_executor import NumpyExecutor
from doppler_core.device.wgpu_executor import open_wgpu
from doppler_core.errors import ManifestError, PlanError
from doppler_core.manifest.load import load_manifest, manifest_json
from doppler_core.plan.check import check
from doppler_core.plan.op import Plan
from doppler_core.plan.profile import apply_profile, profiles
from doppler_core.plan.room import Room
from doppler_core.settings import EngineSettings
from doppler_core.weights.tensor import Tensor
from doppler_plugins.conversion import resolve_checkpoint
from doppler_plugins.model_types.causal import CausalModelType
from doppler_plugins.opening import open_engine

NAME = "gemma4_moe"
VALUES = ("layers.0.router", "layers.0.experts_sum")


def golden() -> dict[str, np.ndarray]:
    with np.load(FOLDER / NAME / "golden.npz") as data:
        return dict(data)


def rows_of(device: str, plan: Plan, tensors: dict[str, Tensor], ids: list[int]) -> Values:
    """VALUES of all the ids, in steps of a chunk."""
    tables = [step(ids[first : first + CHUNK], first) for first in range(0, len(ids), CHUNK)]
    if device == "meaning":
        oracle = Oracle(plan, tensors)
        found = [oracle.run("prefill", one) for one in tables]
    elif device == "numpy":
        executor = NumpyExecutor(plan, tensors, max_rows=CHUNK, max_slots=3)
        found = [executor.capture("prefill", one.rows, one.slots, VALUES) for one in tables]
    else:
        plan = check(apply_profile(plan, profiles()["gpu"]))
        gpu = open_wgpu(plan, tensors, choose_adapter("wgpu:llvmpipe"), max_rows=CHUNK, max_slots=3)
        found = [gpu.capture("prefill", one.rows, one.slots, VALUES) for one in tables]
        gpu.close()
    return {name: np.concatenate([one[name] for one in found]) for name in VALUES}


# f32 all the way, sums in another order; a GPU approximates exp and tanh.
@pytest.mark.parametrize(("device", "tolerance"), [("meaning", 5e-5), ("numpy", 5e-5), ("gpu", 2e-4)])
def test_the_router_and_the_experts_of_a_layer_are_those_of_transformers(
    device: str, tolerance: float, tmp_path: Path
) -> None:
    expected = golden()
    plan, tensors = lowered(artifact(tmp_path, NAME), "f32")
    found = rows_of(device, plan, tensors, [*expected["ids"].tolist(), *expected["made"].tolist()])
    scores = found["layers.0.router"]
    shares = np.exp(scores - scores.max(1, keepdims=True))
    assert relative(shares / shares.sum(1, keepdims=True), expected["router"]) < tolerance
    assert relative(found["layers.0.experts_sum"], expected["experts"]) < tolerance


@pytest.mark.parametrize("device", ["numpy", "wgpu"])
def test_an_engine_gives_the_tokens_of_transformers(device: str, tmp_path: Path) -> None:
    expected = golden()
    with open_engine(FOLDER / NAME, EngineSettings(device=device, cache_dir=str(tmp_path))) as engine:
        made = engine.generate(
            expected["ids"].tolist(), max_tokens=len(expected["made"]), temperature=0, ignore_eos=True
        )
    assert list(made.ids) == expected["made"].tolist()


def _set(section: str, **fields: Any) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        target = data
        for key in section.split(".") if section else ():
            target = target[key]
        target.update(fields)

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_set("", moeConfig=None), r"layers\.0\.router\.proj\.weight: .*moeConfig is null"),
        (_set("inference.ffn", branchMode="dense"), r"branchMode dense"),
        (_set("moeConfig", numExperts=8), r"expected 8 outputs \(moeConfig\.numExperts\), found 4"),
        (_set("moeConfig", expertIntermediateSize=16), r"expected shape \[4, 32, 64\]"),
        (_set("moeConfig", expertFormat="mixtral"), "expertFormat"),
    ],
)
def test_a_manifest_that_speaks_of_other_experts_is_an_error_that_names_them(
    change: Callable[[dict[str, Any]], None], says: str
) -> None:
    found = resolve_checkpoint(FOLDER / NAME, EngineSettings())
    data = manifest_json(found.manifest)
    change(data)
    with pytest.raises((ManifestError, PlanError), match=says):
        CausalModelType().lower(load_manifest(data), dict(found.checkpoint.tensors), Room(64, 3, CHUNK))


def test_experts_that_a_checkpoint_lacks_are_an_error() -> None:
    found = resolve_checkpoint(FOLDER / NAME, EngineSettings())
    tensors = {
        name: one
        for name, one in found.checkpoint.tensors.items()
        if "router" not in name and "experts" not in name
    }
    with pytest.raises(
        PlanError, match=r"layer 0 has no mixture of experts in the checkpoint, while moeConfig is set"
    ):
        CausalModelType().lower(found.manifest, tensors, Room(64, 3, CHUNK))
