"""A manifest that asks for f16 activations, and the same with f32 ones, for what computes in f32."""

import copy
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from diffusion26b import ROOM, SEED, diffusion_manifest, diffusion_tensors

from doppler_core.errors import PlanError
from doppler_core.manifest.catalog import shipped_manifest, template_for
from doppler_core.manifest.digest import kernel_digest
from doppler_core.manifest.load import load_manifest, manifest_json
from doppler_core.plan.activations import WIDER, narrow, with_f32_activations
from doppler_core.plan.kernels import signature
from doppler_core.plan.op import Kernel, State
from doppler_core.plan.profile import profiles
from doppler_core.settings import EngineSettings
from doppler_plugins.model_types.diffusion import DiffusionModelType
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
    for file, entry in WIDER.values():
        inputs = [one for one in signature(Kernel(file, entry, "")).operands if one.kind == "input"]
        assert "f32" in inputs[0].dtypes


def test_lowering_f16_activations_says_what_to_do() -> None:
    manifest = diffusion_manifest()
    with pytest.raises(PlanError, match=r"activationDtype is f16.*expected f32; a kernel profile"):
        DiffusionModelType().lower(manifest, diffusion_tensors(manifest), ROOM)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (EngineSettings(device="numpy"), "NumPy computes in f32"),
        (EngineSettings(device="numpy", kernel_profile="packed"), "NumPy computes in f32"),
        (EngineSettings(device="wgpu:llvmpipe"), "the kernel profile software says so"),
    ],
)
def test_an_engines_plan_says_it(settings: EngineSettings, reason: str, tmp_path: Path) -> None:
    path = template_for(["DiffusionGemmaForBlockDiffusion"])
    assert path is not None
    data = json.loads(path.read_text())
    data["session"]["compute"]["defaults"]["activationDtype"] = "f16"
    data["quantization"]["computePrecision"] = "f16"
    (tmp_path / "manifest.json").write_text(json.dumps(data))
    changed = dataclasses.replace(settings, manifest=str(tmp_path / "manifest.json"), cache_dir=str(tmp_path))
    plan = plan_of(str(FOLDER / "diffusion"), changed)
    assert f"activations are f32 in place of f16: {reason}" in {one.reason for one in plan.findings}
    assert {value.dtype for op in plan.ops() for value in (*op.inputs, op.output) if not isinstance(value, State)} == {"f32", "u32"}  # fmt: skip


def test_every_profile_computes_in_f32() -> None:
    assert {profile.activations for profile in profiles().values()} == {"f32"}
