"""DiffusionGemma 26B-A4B lowered as its seed says, with f16 activations: twins, casts, and what stays f32."""

from collections import Counter
from typing import Any

import pytest
from diffusion26b import ROOM, Change, diffusion_manifest, diffusion_plan, diffusion_tensors
from syrupy.assertion import SnapshotAssertion
from test_plan_diffusion import shown
from test_plan_e2b import TextFile

from doppler_core.errors import PlanError
from doppler_core.plan.activations import WIDE, WIDER
from doppler_core.plan.arena import lay_out
from doppler_core.plan.check import check
from doppler_core.plan.cost import numpy_resident, phase_cost, step_bytes
from doppler_core.plan.kernels import signature
from doppler_core.plan.op import Op, Plan, State
from doppler_core.plan.profile import apply_profile, profiles
from doppler_core.plan.show import plan_json
from doppler_plugins.model_types.diffusion import DiffusionModelType

LAYERS = 30


def lowered(change: Change | None = None) -> Plan:
    manifest = diffusion_manifest(change)
    return check(DiffusionModelType().lower(manifest, diffusion_tensors(manifest), ROOM))


@pytest.fixture(scope="module")
def plan() -> Plan:
    return lowered()


def of_role(plan: Plan, role: str, phase: str = "denoise") -> list[Op]:
    return [op for op in plan.phases[phase] if op.role == role]


def casts(plan: Plan, phase: str = "denoise") -> list[Op]:
    return of_role(plan, "cast", phase)


@pytest.mark.parametrize("phase", ["encode", "denoise"])
def test_printed_plan(plan: Plan, phase: str, snapshot: SnapshotAssertion) -> None:
    assert shown(plan, phase) == snapshot(extension_class=TextFile)


def test_what_goes_from_op_to_op_is_f16_but_for_the_router_and_what_comes_of_logits(plan: Plan) -> None:
    wide = {
        op.role.split(".")[0]
        for op in plan.ops()
        if op.output.dtype == "f32" and not isinstance(op.output, State)
    }
    assert wide == {
        "embed",
        "recall",
        "cast",
        "router_norm",
        "router",
        "final_norm",
        "lm_head_prefill",
        "softcap",
    }
    assert WIDE & {op.role for op in plan.ops()} <= wide
    types = Counter(op.output.dtype for op in plan.ops() if not isinstance(op.output, State))
    assert types["f16"] > 4 * types["f32"]
    assert plan.states()["soft"].dtype == "f32"  # a sum over the whole vocabulary, tile by tile


def test_the_declared_cast_stands_behind_the_token_table(plan: Plan) -> None:
    for phase in plan.phases:
        embed, cast = of_role(plan, "embed", phase)[0], casts(plan, phase)[0]
        assert (cast.origin, str(cast.kernel)) == ("declared", "cast_f32_to_f16.wgsl#main")
        assert cast.inputs == (embed.output,)
        assert cast.output.dtype == "f16"
    assert "prefill_embedding_override_cast" not in {one.where.split(".")[-1] for one in plan.findings}


def test_implied_casts_are_ops_that_say_who_reads_them(plan: Plan) -> None:
    implied = [op for op in casts(plan) if op.origin == "implied"]
    said = Counter(op.note for op in implied)
    assert said == {"soft_norm reads f16": 1, "router_norm reads f32": LAYERS, "final_norm reads f32": 1}
    for op in implied:
        reader = next(one for one in plan.phases["denoise"] if op.output in one.inputs)
        assert op.note.startswith(f"{reader.role} reads")
        assert signature(op.kernel).features == ("shader-f16",)


def test_the_seeds_kernels_for_f16_run_under_their_names(plan: Plan) -> None:
    kernels = {op.kernel.file: op.origin for op in plan.ops()}
    for file in ("fused_matmul_q4_widetile_f16a.wgsl", "attention_head512_f16.wgsl", "cast_f32_to_f16.wgsl"):
        assert file in kernels
    for op in plan.ops():
        if op.kernel.file in WIDER and op.kernel.file not in kernels_of_the_seed():
            assert f"for {WIDER[op.kernel.file]}#{op.kernel.entry}: activations are f16" in op.note


def kernels_of_the_seed() -> set[str]:
    return {spec.kernel for spec in diffusion_manifest().execution.kernels.values()}


def test_the_plan_says_what_is_computed_more_closely_than_the_seed_asks(plan: Plan) -> None:
    said = [one for one in plan.findings if one.standing == "numerics changed"]
    assert [one.where for one in said] == ["session.compute.defaults"]
    assert "products and sums" in said[0].reason


def test_the_weights_are_those_of_the_plan_in_f32(plan: Plan) -> None:
    assert plan.weights() == diffusion_plan().weights()
    assert [op.role for op in plan.phases["denoise"] if op.role != "cast"] == [
        op.role for op in diffusion_plan().phases["denoise"]
    ]


def test_a_step_moves_less_and_a_gpu_holds_less(plan: Plan) -> None:
    wide = diffusion_plan()
    for phase in plan.phases:
        # Weights are most of what moves.
        assert phase_cost(plan, phase, 256, 1).bytes < phase_cost(wide, phase, 256, 1).bytes
        assert phase_cost(plan, phase, 256, 1).flops == pytest.approx(
            phase_cost(wide, phase, 256, 1).flops, rel=1e-3
        )
    assert step_bytes(plan) < 0.8 * step_bytes(wide)
    assert {entry["output"]["dtype"] for entry in plan_json(plan)["phases"]["denoise"]} == {
        "f16",
        "f32",
        "u32",
    }


def test_numpy_holds_every_value_in_four_bytes(plan: Plan) -> None:
    ops, rows = plan.phases["denoise"], plan.largest.rows
    words = lay_out(ops, plan.kept("denoise"), rows, 4, in_words=True)
    for op in ops:
        if op.output.name in words.place:
            assert words.sizes[words.place[op.output.name]] >= op.output.bytes(rows, 4, in_words=True)
    more = step_bytes(plan, in_words=True) - step_bytes(plan)
    assert more > 0
    assert numpy_resident(plan) == pytest.approx(numpy_resident(diffusion_plan()), rel=1e-2)


def test_without_the_declared_cast_both_steps_are_named() -> None:
    def without(data: dict[str, Any]) -> None:
        data["execution"]["preLayer"] = data["execution"]["preLayer"][:1]

    with pytest.raises(
        PlanError,
        match=r"layers\.0\.input_norm: rmsnorm_f16.*reads 'input' as f16, and 'embed' is f32.*cast step",
    ):
        lowered(without)


def test_a_cast_within_a_layer_is_no_step_of_this_architecture() -> None:
    def within(data: dict[str, Any]) -> None:
        data["execution"]["prefill"][0]["steps"].append(["cast", "prefill_embedding_override_cast"])

    with pytest.raises(PlanError, match=r"layers\.0\.cast is declared, but this architecture has no such op"):
        lowered(within)


def test_a_steps_precision_puts_casts_around_it() -> None:
    """The gate's kernel stays the one for f32, its inputs are widened, and what it gives is narrowed again."""

    def wide(data: dict[str, Any]) -> None:
        data["execution"]["kernels"]["gelu"]["precision"] = {"inputDtype": "f32", "outputDtype": "f32"}

    plan = lowered(wide)
    gate = next(op for op in of_role(plan, "activation") if op.layer == 0)
    assert gate.kernel.file == "gelu.wgsl"
    around = [
        (op.inputs[0].name, op.note)
        for op in casts(plan)
        if op.layer == 0 and op.note != "router_norm reads f32"
    ]
    assert around == [
        ("layers.0.gate_proj", "activation reads f32"),
        ("layers.0.up_proj", "activation reads f32"),
        ("layers.0.activation", "down_proj reads f16"),
        ("layers.0.experts_gate_up", "experts_activation reads f32"),
        ("layers.0.experts_activation", "experts_down reads f16"),
    ]


def test_a_session_of_f32_casts_around_kernels_for_f16() -> None:
    def session(data: dict[str, Any]) -> None:
        data["quantization"]["computePrecision"] = "f32"
        data["session"]["compute"]["defaults"] = dict.fromkeys(data["session"]["compute"]["defaults"], "f32")
        data["execution"]["preLayer"].pop()

    plan = lowered(session)
    assert {op.kernel.file for op in of_role(plan, "q_proj")} == {"fused_matmul_q4_widetile_f16a.wgsl"}
    assert {op.kernel.file for op in of_role(plan, "input_norm")} == {"rmsnorm.wgsl"}
    read = Counter(op.note for op in casts(plan) if op.layer == 0)
    assert read["q_proj reads f16"] == 1  # k_proj and v_proj read the same
    assert read["q_norm reads f32"] == 1  # the norm that is fused into the rotation


def test_logits_of_f16_are_refused() -> None:
    def narrow(data: dict[str, Any]) -> None:
        data["execution"]["kernels"]["lm_head_prefill_stable"]["precision"] = {"activationDtype": "f16"}

    with pytest.raises(PlanError, match=r"router: its kernel's precision.inputDtype is f16, and .* is f32"):
        lowered(narrow)


def test_the_profile_for_hardware_leaves_the_seeds_activations(plan: Plan) -> None:
    profile = profiles()["gpu"]
    assert profile.activations is None
    assert check(apply_profile(plan, profile)).phases == plan.phases
