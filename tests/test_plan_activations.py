"""A manifest that asks for f16 activations, and the same with f32 ones, for what computes in f32."""

import copy
import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from diffusion26b import SEED
from diffusion_golden import with_f16_activations

from doppler_core.device.adapters import choose_adapter
from doppler_core.device.probe import probe
from doppler_core.engine import assembly
from doppler_core.manifest.catalog import shipped_manifest
from doppler_core.manifest.digest import kernel_digest
from doppler_core.manifest.load import load_manifest, manifest_json
from doppler_core.plan.activations import WIDER, narrow, with_f32_activations
from doppler_core.plan.kernels import SIGNATURES
from doppler_core.plan.op import Plan, State
from doppler_core.plan.profile import profiles
from doppler_core.settings import EngineSettings
from doppler_plugins import GenerateRequest, open_engine
from doppler_plugins.conversion import resolve_checkpoint
from doppler_plugins.opening import plan_of

FOLDER = Path(__file__).parent / "goldens"


def seed() -> dict[str, Any]:
    return dict(json.loads(shipped_manifest(SEED).read_text()))


def test_a_manifest_with_f32_activations_stays_what_it_is() -> None:
    manifest = load_manifest(shipped_manifest("gemma-4-e2b-it-q4k-ehf16-af32"))
    assert not narrow(manifest)
    assert with_f32_activations(manifest, "because") == (manifest, ())


def test_types_kernels_and_casts_follow_and_nothing_else_changes() -> None:
    before, (after, _) = seed(), with_f32_activations(load_manifest(seed()), "because")
    data = manifest_json(after)
    assert set(data["session"]["compute"]["defaults"].values()) == {"f32"}
    kernels = data["execution"]["kernels"]
    for key, wider in (("q4_widetile", "fused_matmul_q4_batched_multicol_shared.wgsl"), ("attn_head512", "attention_head512_f16kv.wgsl")):  # fmt: skip
        assert (kernels[key]["kernel"], kernels[key]["entry"]) == (wider, "main")
        assert kernels[key]["digest"] == kernel_digest(wider, "main")
    assert kernels["attn_head512"]["precision"] == {"kvDtype": "f16"}  # the cache's type is another question
    assert kernels["final_norm_stable"]["precision"] == {"inputDtype": "f32", "outputDtype": "f32"}
    assert data["execution"]["preLayer"] == [["embed", "embed", "embed_tokens"]]
    # Put back, it is the manifest that it was.
    expected = copy.deepcopy(before)
    for one in (expected, data):
        one["quantization"].pop("computePrecision")
        one["session"].pop("compute")
        one["execution"].pop("preLayer")
        for key in ("q4_widetile", "attn_head512", "prefill_embedding_override_cast"):
            one["execution"]["kernels"].pop(key)
    assert data == expected


def test_what_changed_is_said_with_the_reason() -> None:
    _, findings = with_f32_activations(load_manifest(seed()), "NumPy computes in f32")
    said = {one.where: (one.standing, one.reason) for one in findings}
    assert said["session.compute"] == (
        "numerics changed",
        "activations are f32 in place of f16: NumPy computes in f32",
    )
    standing, reason = said["execution.kernels.q4_widetile"]
    assert standing == "numerics changed"
    assert "fused_matmul_q4_widetile_f16a.wgsl#main" in reason
    assert said["execution.preLayer: cast"][0] == "void"


def test_casts_within_layers_go_too() -> None:
    data = seed()
    cast = ["cast", "prefill_embedding_override_cast"]
    data["execution"]["prefill"][1]["steps"].insert(0, cast)
    data["execution"]["postLayer"].insert(0, cast)
    manifest, findings = with_f32_activations(load_manifest(data), "because")
    assert "cast" not in {step.op for _, step in manifest.execution.steps()}
    assert {one.where for one in findings if one.standing == "void"} == {
        f"execution.{name}: cast" for name in ("preLayer", "prefill", "postLayer")
    }


def test_each_wider_kernel_is_one_that_takes_f32() -> None:
    for narrow_file, file in WIDER.items():
        for row in (row for row in SIGNATURES.values() if row.file == file):
            twin = SIGNATURES[narrow_file, row.entry]
            read = [[one.dtypes[0] for one in each.operands if one.kind == "input"] for each in (row, twin)]
            assert read[0][0] == "f32"
            assert read[1][0] == "f16"


def narrowed(settings: EngineSettings, folder: Path) -> EngineSettings:
    """The settings with a manifest of the tiny DiffusionGemma that asks for f16 activations."""
    found = resolve_checkpoint(FOLDER / "diffusion", EngineSettings(precision="f16", cache_dir=str(folder)))
    path = folder / "manifest.json"
    path.write_text(json.dumps(manifest_json(with_f16_activations(found.manifest))))
    return dataclasses.replace(settings, manifest=str(path), cache_dir=str(folder))


def plan_with(settings: EngineSettings, folder: Path) -> Plan:
    """The plan of its engine."""
    return plan_of(str(FOLDER / "diffusion"), narrowed(settings, folder))


def types(plan: Plan) -> set[str]:
    values = (value for op in plan.ops() for value in (*op.inputs, op.output))
    return {value.dtype for value in values if not isinstance(value, State)}


SOFTWARE = "wgpu:llvmpipe"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (EngineSettings(device="numpy"), "NumPy computes in f32"),
        (EngineSettings(device="numpy", kernel_profile="packed"), "NumPy computes in f32"),
        (EngineSettings(device=SOFTWARE), "the kernel profile software says so"),
        (EngineSettings(device=SOFTWARE, kernel_profile="packed"), "the kernel profile packed says so"),
    ],
)
def test_an_engines_plan_says_it(settings: EngineSettings, reason: str, tmp_path: Path) -> None:
    plan = plan_with(settings, tmp_path)
    assert f"activations are f32 in place of f16: {reason}" in {one.reason for one in plan.findings}
    assert types(plan) == {"f32", "u32"}


def test_the_profile_for_hardware_runs_them_where_the_gpu_adapter_can(tmp_path: Path) -> None:
    plan = plan_with(EngineSettings(device=SOFTWARE, kernel_profile="gpu"), tmp_path)
    assert types(plan) == {"f16", "f32", "u32"}
    assert not [one for one in plan.findings if "in place of f16" in one.reason]


def test_a_gpu_adapter_without_the_feature_computes_in_f32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = choose_adapter(SOFTWARE)
    probe(there)  # and kept, for it and its like
    without = [feature for feature in there.native.features if feature != "shader-f16"]
    lacking = dataclasses.replace(there, native=SimpleNamespace(features=without, limits=there.native.limits))
    monkeypatch.setattr(assembly, "choose_adapter", lambda device: lacking)
    plan = plan_with(EngineSettings(device=SOFTWARE, kernel_profile="gpu"), tmp_path)
    reason = f"activations are f32 in place of f16: {there.name} has no shader-f16"
    assert reason in {one.reason for one in plan.findings}
    assert types(plan) == {"f32", "u32"}


def test_profiles_that_nothing_was_tried_of_in_f16_compute_in_f32() -> None:
    assert {name: profile.activations for name, profile in profiles().items()} == {
        "software": "f32",
        "packed": "f32",
        "gpu": None,
    }


def test_an_engine_answers_in_f16(tmp_path: Path) -> None:
    """On the software GPU adapter, by the kernels that hardware runs: a canvas of three steps, twice the same."""
    settings = EngineSettings(device=SOFTWARE, kernel_profile="gpu", slots=1, context_length=64)
    with open_engine(str(FOLDER / "diffusion"), narrowed(settings, tmp_path)) as engine:
        assert types(engine.plan) == {"f16", "f32", "u32"}
        request = GenerateRequest("a small green boat", steps=3, max_tokens=16, seed=1)
        answers = [engine.submit(request).result() for _ in range(2)]
    assert answers[0].text == answers[1].text
    assert 1 <= answers[0].usage.denoising_steps <= 3
