"""DiffusionGemma without a part that its manifest may leave out: the same as with that part made to change nothing."""

import dataclasses
import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from diffusion_golden import CANVAS, CHUNK, ROOM, SLOTS, Seat, Tiny, tiny
from manifest_fields import Change, field_set
from test_causal_goldens import relative

from doppler_core.device.adapters import choose_adapter
from doppler_core.device.numpy_executor import NumpyExecutor
from doppler_core.device.wgpu_executor import open_wgpu
from doppler_core.engine.request import GenerateRequest
from doppler_core.manifest.load import load_manifest, manifest_json
from doppler_core.plan.canvas import CanvasStep
from doppler_core.plan.check import check
from doppler_core.plan.profile import apply_profile, profiles
from doppler_core.settings import EngineSettings
from doppler_core.weights.storage import to_f32
from doppler_core.weights.tensor import Tensor
from doppler_plugins.model_types.diffusion import DiffusionModelType
from doppler_plugins.opening import open_engine

Weights = dict[str, Tensor]

NAMES = ("layers.0.ffn_residual", "layers.1.ffn_residual", "final_norm")
ROUTER = "inference.diffusionGemma.router"


@pytest.fixture(scope="module")
def of(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return tiny("diffusion", tmp_path_factory.mktemp("diffusion"))


def denoised(
    of: Tiny, device: str, *changes: Change, tensors: Weights | None = None, names: Collection[str] = NAMES
) -> list[np.ndarray]:
    """Values of two steps of one canvas, the second conditioned on the first if the manifest has it so."""
    data, tensors = manifest_json(of.manifest), tensors or of.tensors
    for change in changes:
        change(data)
    plan = check(DiffusionModelType().lower(load_manifest(data), tensors, ROOM))
    rows = max(CHUNK, SLOTS * CANVAS)
    if device == "numpy":
        executor: Any = NumpyExecutor(plan, tensors, max_rows=rows, max_slots=SLOTS)
    else:
        plan = check(apply_profile(plan, profiles()[device]))
        executor = open_wgpu(plan, tensors, choose_adapter("wgpu:llvmpipe"), max_rows=rows, max_slots=SLOTS)
    seat = Seat(executor, place=1)
    seat.encode(of.golden["ids"].tolist())
    tokens, found = of.golden["tokens"], []
    lines = np.zeros((CANVAS, 4), np.uint32)
    lines[:, 0] = tokens
    for _ in range(2):
        executor.write_state("canvas", CANVAS, np.roll(lines, seat.length, 0))
        values = seat.denoise(CanvasStep(1.0, 0, 1, 0.1), np.full(CANVAS, 0.5, np.float32), tokens, names)
        found += [values[name] for name in names]
    executor.close()
    return found


def with_values(tensors: Weights, ending: str, values: Callable[[np.ndarray], np.ndarray]) -> Weights:
    """The tensors with other values for those whose names end so."""
    found = dict(tensors)
    for name, one in tensors.items():
        if name.endswith(ending):
            data = values(to_f32(one).reshape(-1)).astype("<f4").view(np.uint8)
            found[name] = dataclasses.replace(one, data=data, dtype="f32")
    return found


def assert_same(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    """f32 all the way: sums in another order, and exp as the device approximates it."""
    for one, other in zip(found, expected, strict=True):
        assert relative(one, other) < 2e-4


@pytest.mark.parametrize("device", ["numpy", "software"])
def test_without_self_conditioning_every_step_is_as_a_first_one(of: Tiny, device: str) -> None:
    found = denoised(of, device, field_set("inference.diffusionGemma.selfConditioning", False))
    first = of.golden["first"]  # of transformers: the canvas's norm, the layers but the last, the final norm
    assert_same(found[: len(found) // 2], [first[1], first[2], first[-1]])
    assert_same(found[len(found) // 2 :], found[: len(found) // 2])


@pytest.mark.parametrize("device", ["numpy", "software"])
@pytest.mark.parametrize(
    ("flag", "ending", "values"),
    [
        ("perExpertScale", "router.per_expert_scale", np.ones_like),
        ("scaleHiddenStates", "router.scale", lambda scale: np.full_like(scale, len(scale) ** 0.5)),
    ],
)
def test_a_factor_of_the_router_that_is_off_is_a_factor_of_one(
    of: Tiny, device: str, flag: str, ending: str, values: Callable[[np.ndarray], np.ndarray]
) -> None:
    neutral = denoised(of, device, tensors=with_values(of.tensors, ending, values))
    assert_same(denoised(of, device, field_set(f"{ROUTER}.{flag}", False)), neutral)


@pytest.mark.parametrize("device", ["numpy", "software"])
def test_weights_that_are_not_made_to_sum_to_one_are_probabilities(of: Tiny, device: str) -> None:
    """A norm follows, so that they show nowhere else."""
    bare, plain = field_set(f"{ROUTER}.perExpertScale", False), field_set(f"{ROUTER}.normalizeTopK", False)
    normed, probabilities = (
        np.ascontiguousarray(denoised(of, device, *changes, names=("layers.0.routes",))[0][:, 1::2])
        .view(np.float32)
        .sum(1)
        for changes in ((bare,), (bare, plain))
    )
    np.testing.assert_allclose(normed, 1, rtol=1e-5)
    assert (probabilities < 0.999).all()
    assert (probabilities > 0.249).all(), "the likeliest 2 of 8"
    assert_same(denoised(of, device, plain), denoised(of, device))


def test_an_engine_answers_without_any_of_them(of: Tiny, tmp_path: Path) -> None:
    data = manifest_json(of.manifest)
    field_set("inference.diffusionGemma.selfConditioning", False)(data)
    field_set(ROUTER, dict.fromkeys(("scaleHiddenStates", "normalizeTopK", "perExpertScale"), False))(data)
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(data))
    settings = EngineSettings(device="numpy", manifest=str(path), cache_dir=str(tmp_path / "cache"))
    with open_engine(str(of.folder), settings) as engine:
        engine.warmup()
        request = GenerateRequest((5, 6, 7), max_tokens=CANVAS + 1, seed=3, steps=2, ignore_eos=True)
        assert len(engine.submit(request).result(60).ids) == CANVAS + 1
