"""Both executors against transformers on the tiny models that generate: every layer, logits, tokens, in f32 and f16."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from oracle import Oracle
from test_causal_goldens import CHUNK, FOLDER, MODELS, Model, model, relative, step

from doppler_core.device.adapters import choose_adapter
from doppler_core.device.executor import Executor
from doppler_core.device.numpy_executor import NumpyExecutor
from doppler_core.device.wgpu_executor import open_wgpu
from doppler_core.manifest.load import load_manifest, manifest_json
from doppler_core.plan.check import check
from doppler_core.plan.op import Plan
from doppler_core.plan.profile import apply_profile, profiles
from doppler_core.plan.room import Room
from doppler_core.settings import EngineSettings
from doppler_core.weights.artifact import open_artifact
from doppler_core.weights.tensor import Tensor
from doppler_plugins.conversion import convert_checkpoint, resolve_checkpoint
from doppler_plugins.model_types.causal import CausalModelType

GREEDY = frozenset({"greedy"})


@dataclass(frozen=True)
class Run:
    """An executor of a model. tolerance: relative to the largest value of a layer."""

    model: Model
    executor: Executor
    tolerance: float

    @property
    def logits(self) -> float:
        """A soft cap takes half of the largest logits and leaves those around 0, and their errors, what they are."""
        return 2 * self.tolerance


@functools.cache
def artifact(folder: Path, name: str, precision: str = "f32") -> Path:
    """The model converted; in f32 its bf16 values are exact, in f16 they are not."""
    found = resolve_checkpoint(FOLDER / name, EngineSettings(precision=precision))
    return convert_checkpoint(found, EngineSettings(), folder / f"{name}-{precision}").path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("causal")


@pytest.fixture(
    scope="module",
    params=[
        (name, device, kept) for name in MODELS for device in ("numpy", "gpu") for kept in ("f32", "f16")
    ],
    ids="-".join,
)
def run(request: pytest.FixtureRequest, folder: Path) -> Iterator[Run]:
    """Each model on NumPy and on the software GPU adapter, with the manifest's kernels; keys and values in both types."""
    name, device, kept = request.param
    plan, tensors = lowered(artifact(folder, name), kept)
    if device == "numpy":
        executor: Executor = NumpyExecutor(plan, tensors, max_rows=CHUNK, max_slots=3)
    else:
        plan = check(apply_profile(plan, profiles()[device]))
        executor = open_wgpu(plan, tensors, choose_adapter("wgpu:llvmpipe"), max_rows=CHUNK, max_slots=3)
    # f32 all the way, sums in another order; a GPU approximates exp and tanh. f16 keeps 11 bits of a key or value.
    exact = 5e-5 if device == "numpy" else 2e-4
    yield Run(model(name), executor, 2e-3 if kept == "f16" else exact)
    executor.close()


def lowered(path: Path, kept: str) -> tuple[Plan, dict[str, Tensor]]:
    """The plan of an artifact with keys and values as `kept`."""
    opened = open_artifact(path)
    tensors = dict(opened.tensors)
    data = manifest_json(load_manifest(opened.manifest))
    data["session"]["kvcache"]["kvDtype"] = kept
    for kernel in data["execution"]["kernels"].values():
        kernel.pop(
            "precision", None
        )  # it says which type the attention kernels were made for; they take both
    return check(CausalModelType().lower(load_manifest(data), tensors, Room(64, 3, CHUNK))), tensors


def test_a_prompt_and_the_tokens_after_it_are_those_of_transformers(run: Run) -> None:
    """In steps of several rows and then one by one, past the window: the rings turn."""
    of = run.model
    ids, prompt = of.ids.tolist(), len(of.golden["ids"])
    golden = dict(zip(("embed", *of.layers[:-1], "final_norm"), of.golden["hidden"], strict=True))
    golden["logits"] = of.golden["logits"]
    found: dict[str, list[np.ndarray]] = {name: [] for name in golden}
    expected: dict[str, list[np.ndarray]] = {name: [] for name in golden}
    made = []
    for first in [*range(0, prompt, CHUNK), *range(prompt, len(ids))]:
        count = CHUNK if first < prompt else 1
        tables = step(ids[first : first + count], first, place=1)
        phase, names = "prefill" if count > 1 else "decode", [*golden, "sampled"]
        values = run.executor.capture(phase, tables.rows, tables.slots, names, active=GREEDY)
        made.append(int(values["sampled"][0, 0]))
        for name, rows in golden.items():
            found[name].append(values[name])
            # Behind the last layer that makes keys and values a prompt has its last row alone.
            expected[name].append(rows[first : first + count][-len(values[name]) :])
    for name in golden:
        error = relative(np.concatenate(found[name]), np.concatenate(expected[name]))
        assert error < (run.logits if name == "logits" else run.tolerance), name
    # The last token made has nothing to be compared with.
    assert made[prompt // CHUNK - 1 : -1] == of.golden["made"].tolist()


@pytest.mark.parametrize("device", ["numpy", "gpu"])
@pytest.mark.parametrize("name", MODELS)
def test_the_packed_profile_computes_what_the_plan_means(name: str, device: str, folder: Path) -> None:
    """Q4_K on the device, norms, gates and rotations fused: against the meanings on the same weights."""
    plan, tensors = lowered(artifact(folder, name, "q4k"), "f32")
    packed = check(apply_profile(plan, profiles()["packed"]))
    assert {"projections", "gated_matmul"} <= {op.meaning for op in packed.phases["decode"]}
    # What is too narrow for a packed kernel, Gemma 4's 16 per-layer inputs, is f16 on the device.
    if device == "numpy":
        oracle = Oracle(plan, tensors)
        executor: Executor = NumpyExecutor(packed, tensors, max_rows=CHUNK, max_slots=3)
    else:
        oracle = Oracle(plan, tensors, rounded_as=packed)
        executor = open_wgpu(packed, tensors, choose_adapter("wgpu:llvmpipe"), max_rows=CHUNK, max_slots=3)
    names = [model(name).layers[-1], "final_norm", "logits"]
    ids = model(name).ids.tolist()
    for phase, first, count in (("prefill", 0, CHUNK), *(("decode", row, 1) for row in range(CHUNK, 24))):
        tables = step(ids[first : first + count], first)
        found = executor.capture(phase, tables.rows, tables.slots, names)
        expected = oracle.run(phase, tables)
        for each in names:
            assert relative(found[each], expected[each]) < 2e-4, (each, first)
    executor.close()
