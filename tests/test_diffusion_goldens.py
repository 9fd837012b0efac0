"""DiffusionGemma against transformers, by the meanings alone and on both executors: each layer, the logits, whole runs."""

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from diffusion_golden import (
    CANVAS,
    CHUNK,
    MODELS,
    ROOM,
    SLOTS,
    Meant,
    Runner,
    Seat,
    Tiny,
    entropies,
    repeated,
    same_step,
    tiny,
)
from test_causal_goldens import relative

from doppler_core.device.adapters import choose_adapter
from doppler_core.device.numpy_executor import NumpyExecutor
from doppler_core.device.wgpu_executor import open_wgpu
from doppler_core.manifest.catalog import shipped_manifest
from doppler_core.manifest.load import load_manifest, manifest_json
from doppler_core.manifest.model import Manifest
from doppler_core.plan import denoising
from doppler_core.plan.activations import with_f32_activations
from doppler_core.plan.canvas import CanvasStep
from doppler_core.plan.check import check
from doppler_core.plan.profile import apply_profile, profiles
from doppler_core.settings import EngineSettings
from doppler_core.weights.artifact import open_artifact
from doppler_plugins.conversion import convert_checkpoint, resolve_checkpoint
from doppler_plugins.model_types.diffusion import DiffusionModelType

DEVICES = ("meaning", "numpy", "gpu", "software")
LAYERS = tuple(f"layers.{layer}.ffn_residual" for layer in range(3))
UNDRAWN = np.full(CANVAS, 0.5, np.float32)


@dataclass(frozen=True)
class Bound:
    """A model on something that runs its plan. tolerance: relative to the largest value of a layer."""

    of: Tiny
    runner: Runner
    tolerance: float

    @property
    def logits(self) -> float:
        """A soft cap takes half of the largest logits and leaves those around 0, and their errors, what they are."""
        return 2 * self.tolerance


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("diffusion")


@pytest.fixture(
    scope="module", params=[(name, device) for name in MODELS for device in DEVICES], ids="-".join
)
def bound(request: pytest.FixtureRequest, folder: Path) -> Iterator[Bound]:
    name, device = request.param
    of = tiny(name, folder)
    rows = max(CHUNK, SLOTS * CANVAS)
    # f32 all the way, sums in another order; a GPU approximates exp and tanh.
    if device == "meaning":
        yield Bound(of, Meant(of.plan, of.tensors), 5e-5)
    elif device == "numpy":
        executor = NumpyExecutor(of.plan, of.tensors, max_rows=rows, max_slots=SLOTS)
        yield Bound(of, executor, 5e-5)
        executor.close()
    else:
        plan = check(apply_profile(of.plan, profiles()[device]))
        gpu = open_wgpu(plan, of.tensors, choose_adapter("wgpu:llvmpipe"), max_rows=rows, max_slots=SLOTS)
        yield Bound(of, gpu, 2e-4)
        gpu.close()


def test_the_encoders_layers_are_those_of_transformers(bound: Bound) -> None:
    golden, seat = bound.of.golden, Seat(bound.runner, place=1)
    *layers, _ = LAYERS  # nothing reads what the last gives
    found = seat.encode(golden["ids"].tolist(), ["embed", *layers])
    for name, expected in zip(("embed", *layers), golden["encoded"], strict=False):
        assert relative(found[name], expected) < bound.tolerance, name
    state = bound.of.plan.states()["layers.2.kv"]
    kept = bound.runner.read_state(state.name, state.capacity, len(golden["ids"]))
    assert relative(kept, np.concatenate([golden["keys"], golden["values"]], 1)) < bound.tolerance


def test_a_canvas_is_denoised_as_in_transformers_and_then_knows_what_it_was(bound: Bound) -> None:
    """The first step has nothing to be conditioned on, the second the first one's logits, at temperature 1."""
    golden, seat = bound.of.golden, Seat(bound.runner, place=2)
    seat.encode(golden["ids"].tolist())
    names = ("canvas_norm", *LAYERS[:-1], "final_norm")
    step = CanvasStep(1.0, 0, 1, 0.1)
    seat.begin(golden["tokens"], golden["first"].shape[-1])
    for which in ("first", "second"):
        found = seat.denoise(step, UNDRAWN, golden["tokens"], [*names, "tiles.0.logits"])
        for name, expected in zip(names, golden[which], strict=True):
            assert relative(found[name], expected) < bound.tolerance, (which, name)
        assert relative(found["tiles.0.logits"], golden[f"{which}_logits"]) < bound.logits, which
        soft = seat.soft()
        seat.begin(golden["tokens"], soft.shape[1])
        seat.remember(soft)


def test_recorded_runs_are_repeated_token_for_token(bound: Bound) -> None:
    for name, run in bound.of.runs.items():
        for number, values, canvas in repeated(bound.of, run, bound.runner, place=SLOTS - 1):
            assert same_step(run, number, canvas), (name, number)
            # What decisions hang on: runs are recorded in which 1e-3 nats decide nothing.
            assert np.abs(entropies(canvas) - run.entropy[number]).max() < 5e-4, (name, number)
            mean, changed, broken, _ = values["progress"][0]
            assert np.uint32(mean).view(np.float32) == pytest.approx(run.entropy[number].mean(), abs=5e-4)
            again = number and run.canvas[number] == run.canvas[number - 1]
            before = run.likeliest[number - 1] if again else np.full(CANVAS, -1)
            assert (changed, broken) == ((run.likeliest[number] != before).sum(), 0)


def test_the_runs_hold_every_way_to_end(folder: Path) -> None:
    runs = tiny("diffusion", folder).runs
    assert not runs["whole"].finished.any()
    assert runs["ends"].answer[-1] == 0  # filled up behind the end token
    for name, stability in (("stops", 1), ("stable", 2), ("confident", 0)):
        assert runs[name].settings["stabilityThreshold"] == stability
        assert runs[name].finished.sum() == len(runs[name].first)


def as_the_seed(of: Tiny) -> Manifest:
    """The model with the execution, the storage types and the session of the 26B's seed."""
    seed = json.loads(shipped_manifest("diffusiongemma-26b-a4b-it-q4k-ehf16-af16").read_text())
    for group, layers in zip(seed["execution"]["prefill"], ([0, 1], [2]), strict=True):
        group["layers"] = layers
    parts = {name: seed[name] for name in ("execution", "quantization", "session")}
    return load_manifest({**manifest_json(of.manifest), **parts})


@pytest.mark.parametrize("device", ["numpy", "gpu", "software"])
def test_the_kernels_of_the_seed_compute_what_the_plan_means(device: str, folder: Path) -> None:
    """Q4_K, experts and all, with f32 activations: against the meanings on the same weights."""
    of = tiny("diffusion_wide", folder)
    found = dataclasses.replace(resolve_checkpoint(of.folder, EngineSettings()), manifest=as_the_seed(of))
    path = convert_checkpoint(found, EngineSettings(), folder / f"as-the-seed-{device}").path
    manifest, changes = with_f32_activations(found.manifest, "so that it runs here")
    assert "numerics changed" in {one.standing for one in changes}
    tensors = dict(open_artifact(path).tensors)
    plan = check(DiffusionModelType().lower(manifest, tensors, ROOM))
    kernels = {op.kernel.file for op in plan.ops()}
    assert {"expert_matmul_q4_k.wgsl", "fused_matmul_q4_batched_multicol_shared.wgsl"} < kernels
    rows = SLOTS * CANVAS
    if device == "numpy":
        oracle, executor = Meant(plan, tensors), NumpyExecutor(plan, tensors, max_rows=rows, max_slots=SLOTS)
    else:
        bound = check(apply_profile(plan, profiles()[device]))
        oracle = Meant(plan, tensors, rounded_as=bound)
        executor = open_wgpu(bound, tensors, choose_adapter("wgpu:llvmpipe"), max_rows=rows, max_slots=SLOTS)
    names, step = (LAYERS[-1], "final_norm", "tiles.0.logits"), CanvasStep(1.0, 0, 1, 0.1)
    results = []
    for runner in (oracle, executor):
        seat = Seat(runner)
        seat.encode(of.golden["ids"].tolist())
        seat.begin(of.golden["tokens"], of.golden["first"].shape[-1])
        results.append([seat.denoise(step, UNDRAWN, of.golden["tokens"], names) for _ in range(2)])
    for number, (expected, values) in enumerate(zip(*results, strict=True)):
        for name in names:
            # Keys and values are f16 on the device and f32 in the meaning.
            assert relative(values[name], expected[name]) < 4e-3, (number, name)
    executor.close()


def test_in_tiles_of_any_size_the_vocabulary_gives_the_same_run(folder: Path) -> None:
    """700 tokens in tiles of 256: two whole ones and a part of one."""
    of = tiny("diffusion_wide", folder)
    with mock.patch.object(denoising, "TILE", 256):
        plan = check(DiffusionModelType().lower(of.manifest, of.tensors, ROOM))
    assert sum(op.meaning == "tally" for op in plan.phases["denoise"]) == 3
    run = of.runs["confident"]
    for number, _, canvas in repeated(of, run, Meant(plan, of.tensors)):
        assert same_step(run, number, canvas), number
