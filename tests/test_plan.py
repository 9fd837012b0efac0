"""Plans: the text of EmbeddingGemma's, and what a manifest or a checkpoint that makes none is told."""

import dataclasses
import json
import re
from typing import Any

import pytest
from manifest_fields import Change, field_set
from plans import SEED, embeddinggemma_shapes, lowered
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from doppler_core.errors import ManifestError, PlanError, SettingsError
from doppler_core.plan.check import check
from doppler_core.plan.cost import gpu_resident, least_bytes, numpy_resident, phase_cost
from doppler_core.plan.op import Kernel, Op, Plan, Step, Value, Weight
from doppler_core.plan.profile import AdapterFacts, apply_profile, choose_profile, profiles
from doppler_core.plan.show import plan_json, plan_lines

MANIFESTS = {
    "q4k": SEED,
    "f16": "google-embeddinggemma-300m-f16",
    "q8_0": "google-embeddinggemma-300m-q8_0",
}


def text_of(plan: Plan) -> str:
    """The printed plan, without the digests, which change with every word of a kernel's comment."""
    return re.sub(r"(#main +)[0-9a-f]{8}", r"\1........", "\n".join(plan_lines(plan, cost=True))) + "\n"


class TextFile(SingleFileSnapshotExtension):
    """One readable file for each printed plan."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"


@pytest.mark.parametrize("profile", ["as-lowered", "software", "packed"])
@pytest.mark.parametrize("precision", MANIFESTS)
def test_printed_plan(precision: str, profile: str, snapshot: SnapshotAssertion) -> None:
    plan = lowered(MANIFESTS[precision])
    if profile != "as-lowered":
        plan = check(apply_profile(plan, profiles()[profile]))
    assert text_of(plan) == snapshot(extension_class=TextFile)


def test_the_json_plan_says_what_the_text_says() -> None:
    data = json.loads(json.dumps(plan_json(lowered(), cost=True)))
    ops = data["phases"]["encode"]
    assert (ops[0]["role"], ops[0]["origin"], ops[-1]["role"], ops[-1]["origin"]) == (
        "embed",
        "declared",
        "l2norm",
        "implied",
    )
    assert data["cost"]["phases"]["encode"]["flops"] == phase_cost(lowered(), "encode", 512, 4).flops


def test_full_layers_have_no_window_and_the_global_theta() -> None:
    ops = lowered().phases["encode"]
    windows = [op.params["window"] for op in ops if op.role == "attention"]
    assert [layer for layer, window in enumerate(windows) if not window] == [5, 11, 17, 23]
    assert set(windows) == {0, 512}
    thetas = {op.layer: op.constants[0].params["theta"] for op in ops if op.role == "rope_q"}
    assert {layer for layer, theta in thetas.items() if theta == 1e6} == {5, 11, 17, 23}


def test_norms_come_before_their_residual_and_take_it_in() -> None:
    ops = {op.role: op for op in lowered().phases["encode"] if op.layer == 7}
    for norm, product, total in (
        ("post_attn_norm", "o_proj", "attn_residual"),
        ("post_feedforward_norm", "down_proj", "ffn_residual"),
    ):
        assert ops[norm].inputs[0].name == f"layers.7.{product}"
        assert ops[norm].output.name == f"layers.7.{total}"
        assert f"fused: {total}" in ops[norm].note


def test_every_declared_step_is_in_the_plan() -> None:
    plan = lowered()
    declared = {(op.layer, op.role) for op in plan.ops() if op.origin == "declared"}
    declared |= {
        (op.layer, role) for op in plan.ops() for role in re.findall(r"fused: (\w+_residual)", op.note)
    }
    assert len(declared) == 24 * 15 + 2
    assert not [finding for finding in plan.findings if finding.standing == "void"]


def test_sections_that_do_not_run_are_said_to() -> None:
    findings = {finding.where: finding.standing for finding in lowered().findings}
    assert findings["execution.decode"] == "not run"
    assert any(where.startswith("session.decodeLoop") for where in findings)


def _drop(role: str) -> Change:
    def change(data: dict[str, Any]) -> None:
        steps = data["execution"]["prefill"]
        data["execution"]["prefill"] = [step for step in steps if step[0] != role]

    return change


def _add(step: list[str]) -> Change:
    return lambda data: data["execution"]["prefill"].append(step)


def _in_layers(count: int) -> Change:
    def change(data: dict[str, Any]) -> None:
        data["execution"]["prefill"] = [{"layers": list(range(count)), "steps": data["execution"]["prefill"]}]

    return change


def _kernel(key: str, step: str) -> Change:
    def change(data: dict[str, Any]) -> None:
        for entry in data["execution"]["prefill"]:
            if entry[0] == step:
                entry[1] = key

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_drop("rope_q"), "declares no step for the role 'rope_q' of layer 0"),
        (_drop("q_proj"), "'q_proj' of layer 0"),
        (_drop("attention"), "'attention' of layer 0"),
        (_add(["router", "tiled"]), "layers.0.router is declared, but this architecture has no such op"),
        (_add(["q_proj", "tiled"]), "layers.0.q_proj is declared twice"),
        (_add(["q_proj", "nothing"]), 'no kernel "nothing"'),
        (_in_layers(23), "layer 23 is in no group"),
        (_kernel("rmsnorm", "q_proj"), "expected a kernel that computes matmul"),
        (_kernel("gelu", "attention"), "expected a kernel that computes attention"),
        (field_set("inference.attention.causal", True), "causal"),
        (field_set("inference.attention.attentionOutputGate", True), "attentionOutputGate"),
        (field_set("inference.output.embeddingPostprocessor.poolingMode", "last"), "poolingMode"),
        (field_set("inference.ffn.activation", "silu"), "activation"),
        (field_set("session.compute.defaults.activationDtype", "f16"), "activationDtype"),
        (field_set("execution.policies.unresolvedKernel", "ignore"), "unresolvedKernel"),
    ],
)
def test_a_manifest_that_names_what_does_not_happen_is_an_error(change: Change, says: str) -> None:
    with pytest.raises((ManifestError, PlanError), match=re.escape(says)):
        lowered(change=change)


def test_a_step_with_another_roles_weights_is_an_error() -> None:
    def swap(data: dict[str, Any]) -> None:
        for step in data["execution"]["prefill"]:
            if step[0] == "k_proj":
                step[2] = "layer.{L}.self_attn.v_proj"

    with pytest.raises(PlanError, match=r"reads 'layer\.\{L\}\.self_attn\.k_proj'"):
        lowered(change=swap)


@pytest.mark.parametrize(
    ("name", "shape", "says"),
    [
        ("layers.3.mlp.up_proj.weight", None, "no tensor 'layers.3.mlp.up_proj.weight'"),
        ("embed_tokens.weight", None, "no tensor `embed_tokens.weight`"),
        ("embed_tokens.weight", (1000, 768), "expected shape [262144, 768]"),
        ("layers.3.self_attn.k_proj.weight", (512, 768), "expected 1 heads of 256"),
        ("layers.3.mlp.down_proj.weight", (768, 1151), "expected shape [outputs, 1152]"),
        ("layers.3.self_attn.q_norm.weight", (255,), "q_norm.weight: expected shape [256]"),
        ("embedding_postprocessor.projections.0.weight", (3072, 767), "expected shape [3072, 768]"),
    ],
)
def test_a_tensor_that_is_missing_or_of_another_shape_is_named(
    name: str, shape: tuple[int, ...] | None, says: str
) -> None:
    shapes = embeddinggemma_shapes()
    if shape is None:
        del shapes[name]
    else:
        shapes[name] = shape
    with pytest.raises(PlanError, match=re.escape(says)):
        lowered(shapes=shapes)


def test_names_may_have_a_publishers_prefix() -> None:
    shapes = {
        name if name.startswith("embedding_postprocessor") else f"model.{name}": shape
        for name, shape in embeddinggemma_shapes().items()
    }
    assert len(lowered(shapes=shapes).phases["encode"]) == len(lowered().phases["encode"])


def test_a_type_change_without_a_cast_names_both_steps() -> None:
    kernel = Kernel("residual.wgsl", "main", "")
    table = Weight("table", (9, 4), "f32", "f32")
    params = {"columns": 4, "scale": 1.0}
    first = Op(
        "gather",
        "one",
        None,
        Kernel("gather.wgsl", "main", ""),
        (),
        Value("x", ("T", 4)),
        (table,),
        params=params,
    )
    read = Value("x", ("T", 4), "f16")
    second = Op("residual", "two", None, kernel, (read, read), Value("y", ("T", 4)), params=params)
    with pytest.raises(PlanError, match=r"one writes 'x' as f32 and two reads it as f16.*cast step"):
        check(_plan_of(first, second))


def _plan_of(*ops: Op) -> Plan:
    return Plan("m", {"p": ops}, {"p": (ops[-1].output,)})


def test_the_software_profile_is_for_software_adapters() -> None:
    assert choose_profile(None, AdapterFacts("CPU", 8)).name == "software"
    assert choose_profile(None, AdapterFacts("DiscreteGPU", 32)).name == "gpu"
    assert choose_profile(None, AdapterFacts("CPU", 4)).name == "gpu"
    with pytest.raises(SettingsError, match="did you mean 'packed'"):
        choose_profile("pakced", AdapterFacts("CPU", 8))


def test_a_substitution_says_what_it_replaces_and_why() -> None:
    plan = apply_profile(lowered(), profiles()["software"])
    changed = [op for op in plan.ops() if op.origin == "substituted"]
    assert changed
    assert all(op.note.count("for ") and ".wgsl#" in op.note for op in changed)


def test_costs_of_embeddinggemma() -> None:
    """203 MFLOP a token in the 24 layers' matrices, by hand: 2 * 24 * (2*768*768 + 2*256*768 + 3*768*1152)."""
    plan = dataclasses.replace(lowered("google-embeddinggemma-300m-f16"), largest=Step(1, 1))
    linears = 2 * 24 * (2 * 768 * 768 + 2 * 256 * 768 + 3 * 768 * 1152)
    found = phase_cost(plan, "encode", 100, 100)
    assert linears * 100 < found.flops < linears * 100 * 1.1 + 100 * 2 * 2 * 3072 * 768
    assert gpu_resident(plan) == pytest.approx(2 * 307_581_696 + 2 * 2048 * 128 * 2 * 4, rel=1e-3)
    assert numpy_resident(plan) < gpu_resident(plan)
    assert least_bytes(plan, "encode", 1, 1) > 2 * linears / 2
