"""A Gemma 4 with experts, which the model type does not run yet: it is refused by name before anything runs.

As far as the stack is dense it is held to transformers all the same: the token table, layer 0's attention by what the
router makes of it, and the feed-forward branch beside the experts, whose own sum is taken from the golden.
"""

from pathlib import Path

import numpy as np
import pytest
from oracle import Oracle, Values
from test_causal_executors import artifact, lowered
from test_causal_goldens import CHUNK, FOLDER, relative, step

from doppler_core.device.adapters import choose_adapter
from doppler_core.device.numpy_executor import NumpyExecutor
from doppler_core.device.wgpu_executor import open_wgpu
from doppler_core.errors import PlanError
from doppler_core.plan.check import check
from doppler_core.plan.op import Plan
from doppler_core.plan.profile import apply_profile, profiles
from doppler_core.settings import EngineSettings
from doppler_core.weights.artifact import open_artifact
from doppler_core.weights.storage import to_f32
from doppler_core.weights.tensor import Tensor
from doppler_plugins.opening import open_engine

NAME = "gemma4_moe"
VALUES = ("embed", "layers.0.attn_residual", "layers.0.down_proj")


@pytest.mark.parametrize("device", ["numpy", "wgpu"])
def test_a_model_with_experts_is_refused_by_the_name_of_its_router(device: str, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"layers\.0\.router\.proj\.weight: layer 0 has a mixture of experts"):
        open_engine(FOLDER / NAME, EngineSettings(device=device, cache_dir=str(tmp_path)))


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


@pytest.mark.parametrize(("device", "tolerance"), [("meaning", 5e-5), ("numpy", 5e-5), ("gpu", 2e-4)])
def test_layer_0_is_that_of_transformers_as_far_as_it_is_dense(
    device: str, tolerance: float, tmp_path: Path
) -> None:
    """The plan is lowered without the experts, of which nothing before layer 0's last sum knows."""
    path = artifact(tmp_path, NAME)
    all_tensors = open_artifact(path).tensors
    plan, tensors = lowered(path, "f32", without=("router", "experts"))
    with np.load(FOLDER / NAME / "golden.npz") as data:
        golden = dict(data)
    found = rows_of(device, plan, tensors, [*golden["ids"].tolist(), *golden["made"].tolist()])

    def weight(name: str) -> np.ndarray:
        tensor = all_tensors[f"model.layers.0.{name}"]
        return to_f32(tensor).reshape(tensor.shape)

    def normed(x: np.ndarray, name: str | None = None) -> np.ndarray:
        unit = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)
        return np.asarray(unit if name is None else unit * weight(f"{name}.weight"))

    assert relative(found["embed"], golden["hidden"][0]) < tolerance

    x = found["layers.0.attn_residual"]
    scores = normed(x) * weight("router.scale") * x.shape[1] ** -0.5 @ weight("router.proj.weight").T
    shares = np.exp(scores - scores.max(1, keepdims=True))
    assert relative(shares / shares.sum(1, keepdims=True), golden["router"]) < tolerance

    dense = normed(found["layers.0.down_proj"], "post_feedforward_layernorm_1")
    experts = normed(golden["experts"], "post_feedforward_layernorm_2")
    out = (x + normed(dense + experts, "post_feedforward_layernorm")) * weight("layer_scalar")
    assert relative(out, golden["hidden"][1]) < tolerance
