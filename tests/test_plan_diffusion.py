"""DiffusionGemma 26B-A4B's plan, from its seed: two phases of one weight set, experts, tiles of the vocabulary."""

import dataclasses
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from diffusion26b import DECODER, ENCODER, ROOM, diffusion_manifest, diffusion_plan, diffusion_tensors
from syrupy.assertion import SnapshotAssertion
from test_plan_e2b import TextFile, set_to

from doppler_core.errors import ManifestError, PlanError
from doppler_core.manifest.load import manifest_json
from doppler_core.plan.activations import with_f32_activations
from doppler_core.plan.cost import gpu_resident, least_bytes, numpy_matrices
from doppler_core.plan.op import Op, Plan, State
from doppler_core.plan.room import Room
from doppler_core.plan.show import plan_json, plan_lines
from doppler_core.weights.policy import selected, storage_types
from doppler_plugins.model_types.diffusion import DiffusionModelType

LAYERS, FULL = 30, (5, 11, 17, 23, 29)
VOCABULARY, TILE, CANVAS = 262_144, 8192, 256
# One layer of each kind stands for all, and the last, of which the encoder needs a part.
SHOWN = ("", "0", "5", "29")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return diffusion_plan()


def of_role(plan: Plan, role: str, phase: str = "denoise") -> list[Op]:
    return [op for op in plan.phases[phase] if op.role == role]


@pytest.mark.parametrize("phase", ["encode", "denoise"])
def test_printed_plan(plan: Plan, phase: str, snapshot: SnapshotAssertion) -> None:
    assert shown(plan, phase) == snapshot(extension_class=TextFile)


def shown(plan: Plan, phase: str) -> str:
    """The printed plan without digests. Of the vocabulary's tiles the first two: the others are like the second."""
    lines = [re.sub(r"(#\w+ +)[0-9a-f]{8} ", r"\1........ ", line) for line in plan_lines(plan, phase)]
    kept, tiles = [], Counter[str]()
    for line in lines:
        op = re.match(r"  ([ \d]{3}) (\w+)", line)
        tiles[op[2] if op else ""] += bool(op and not op[1].strip())
        if not op or (op[1].strip() in SHOWN and (op[1].strip() or tiles[op[2]] <= 2)):
            kept.append(line)
    return "\n".join(kept) + "\n"


def test_both_phases_read_one_set_of_weights(plan: Plan) -> None:
    read = {phase: {weight.name for op in ops for weight in op.weights} for phase, ops in plan.phases.items()}
    # What the encoder leaves out: the rest of its last layer, the last norm, what mixes in the step before.
    assert read["encode"] < read["denoise"]
    left = {name.removeprefix("model.decoder.") for name in read["denoise"] - read["encode"]}
    assert {name for name in left if not name.startswith("layers.29.")} == {
        "norm.weight",
        *(f"self_conditioning.{name}.weight" for name in ("pre_norm", "gate_proj", "up_proj", "down_proj")),
    }


def test_each_phase_has_factors_of_its_own_for_the_layers(plan: Plan) -> None:
    for phase, factor, last in (("encode", ENCODER, LAYERS - 1), ("denoise", DECODER, LAYERS)):
        norms = of_role(plan, "post_feedforward_norm", phase)
        assert [op.params["gain"] for op in norms] == [factor] * last


def test_the_encoder_is_causal_and_a_canvas_sees_all_of_itself(plan: Plan) -> None:
    for phase, canvas in (("encode", False), ("denoise", True)):
        for op in of_role(plan, "attention", phase):
            assert bool(op.params.get("canvas", False)) == canvas
            assert (op.params["window"] == 0) == (op.layer in FULL)
            assert op.inputs[1].name == f"layers.{op.layer}.kv"
    assert [op.layer for op in of_role(plan, "store", "encode")] == list(range(LAYERS))
    assert not [
        op for op in plan.phases["encode"] if op.layer == LAYERS - 1 and op.meaning == "cached_attention"
    ]


def test_full_layers_take_their_keys_for_values(plan: Plan) -> None:
    for phase in plan.phases:
        roles = Counter(op.layer for op in of_role(plan, "v_proj", phase))
        assert set(roles) == {layer for layer in range(LAYERS) if layer not in FULL}
        for op in of_role(plan, "store", phase):
            keys, values = op.inputs[:2]
            assert op.params["value_norm"] == 1
            assert values.name.split(".")[-1] == ("k_proj" if op.layer in FULL else "v_proj")
            assert keys.name.split(".")[-1] == "rope_k"


def test_a_rings_room_is_the_window_and_a_step_or_a_canvas() -> None:
    for chunk, rows in ((512, 512), (64, CANVAS)):
        states = diffusion_plan(room=Room(8192, 4, chunk)).states()
        assert states["layers.0.kv"].capacity == 1024 + rows
        assert states["layers.5.kv"].capacity == 8192


def test_experts_stay_packed_and_a_row_is_routed_by_the_residual(plan: Plan) -> None:
    for role, shape in (("experts_gate_up", (128, 1408, 2816)), ("experts_down", (128, 2816, 704))):
        ops = of_role(plan, role)
        assert [op.layer for op in ops] == list(range(LAYERS))
        assert {(op.weights[0].dtype, op.weights[0].shape) for op in ops} == {("q4_k", shape)}
    for op in of_role(plan, "router_norm"):
        assert op.inputs[0].name == f"layers.{op.layer}.attn_residual"
        assert op.params["gain"] == 2816**-0.5
    experts = LAYERS * 128 * 3 * 704 * 2816 * 4
    assert numpy_matrices(plan) < experts / 9  # in f32 they would take 91 GB; the others are expanded


def test_the_vocabulary_goes_by_in_tiles_that_are_used_up_one_by_one(plan: Plan) -> None:
    heads, blends = of_role(plan, "lm_head_prefill"), of_role(plan, "blend")
    assert len(heads) == len(blends) == VOCABULARY // TILE
    for number, ops in enumerate(zip(heads, blends, strict=True)):
        for op in ops:
            section = op.weights[0].section
            assert section is not None
            assert (section.first, section.count) == (number * TILE, TILE)
    widest = max(value.columns for op in plan.ops() for value in (*op.inputs, op.output))
    assert widest < 2 * 8 * 2816  # the outputs of eight experts, and no row of logits


def test_only_the_canvases_themselves_and_their_soft_embeddings_outlive_a_step(plan: Plan) -> None:
    states = {name: state for name, state in plan.states().items() if not name.endswith(".kv")}
    assert set(states) == {"canvas", "noise", "tally", "soft"}
    assert {(state.places, state.capacity) for state in states.values()} == {(ROOM.slots, CANVAS)}
    # A step's buffers are those of 4 canvases: less than the logits of one row of each of their tokens would be.
    assert sum(state.bytes(0, 0) for state in states.values()) < 4 * CANVAS * VOCABULARY * 4 / 30
    assert plan.largest.rows == ROOM.slots * CANVAS


def test_noise_is_left_out_where_a_step_brings_its_own(plan: Plan) -> None:
    assert [op.role for op in plan.phases["denoise"] if op.when] == ["noise"]
    assert {op.when for op in of_role(plan, "noise")} == {"random"}


def test_every_declared_step_is_used_or_void_with_its_reason(plan: Plan) -> None:
    void = {one.where: one.reason for one in plan.findings if one.standing == "void"}
    assert set(void) == {
        "execution: lm_head",
        "execution: sample",
        "execution.preLayer: cast",
        "execution.prefill: v_proj of layers 5, 11, 17, 23, 29",
    }
    assert all(void.values())
    (last,) = [op for op in of_role(plan, "store", "encode") if op.layer == LAYERS - 1]
    assert "nothing reads what the encoder's last layer gives" in last.note
    left = {one.where: one.reason for one in plan.findings if one.standing == "not loaded"}
    assert set(left) == {
        "355 tensors of the vision tower",
        "1 tensors of the towers' projections",
        f"tensor model.encoder.language_model.layers.{LAYERS - 1}.layer_scalar",
    }


def test_the_least_bytes_of_a_step_are_all_weights_once(plan: Plan) -> None:
    """25.2 G parameters of the layers in Q4_K, 4.5 bits each and padded, and the table in f16, by hand."""
    table = VOCABULARY * 2816 * 2
    experts = LAYERS * 128 * (1408 * 11 + 2816 * 3) * 144
    least = least_bytes(plan, "denoise", CANVAS, 1, 1000)
    assert table + experts < least < (table + experts) * 1.15
    assert gpu_resident(plan) > least


def test_a_conversion_for_text_leaves_the_tower_out_and_keeps_routers_exact() -> None:
    manifest = diffusion_manifest()
    tensors = {
        name: dataclasses.replace(one, dtype="bf16") for name, one in diffusion_tensors(manifest).items()
    }
    kept = selected(tensors, text_only=True)
    assert (len(tensors), len(kept)) == (1047, 1047 - 356)
    types = storage_types(manifest_json(manifest)["quantization"], kept)
    layer = "model.decoder.layers.0"
    for name in (
        "experts.gate_up_proj",
        "experts.down_proj",
        "mlp.down_proj.weight",
        "self_attn.q_proj.weight",
    ):
        assert types[f"{layer}.{name}"] == "q4_k"
    for name in ("router.proj.weight", "router.scale", "router.per_expert_scale", "layer_scalar"):
        assert types[f"{layer}.{name}"] == "f16"
    assert types["model.encoder.language_model.layers.0.layer_scalar"] == "f16"
    assert types["model.decoder.embed_tokens.weight"] == "f16"


def test_without_self_conditioning_the_embeddings_are_normed_and_nothing_is_blended() -> None:
    plain = diffusion_plan(set_to("inference.diffusionGemma.selfConditioning", False))
    roles = {op.role for op in plain.phases["denoise"]}
    assert not roles & {"recall", "soft_norm", "soft_gate", "soft_down", "soft_residual", "blend", "soften"}
    (norm,) = of_role(plain, "canvas_norm")
    assert norm.inputs[0].name == "embed"
    assert not norm.weights
    assert "soft" not in plain.states()
    names = {one.where for one in plain.findings if one.standing == "not loaded"}
    assert "tensor model.decoder.self_conditioning.down_proj.weight" in names


@pytest.mark.parametrize(
    ("root", "factor", "expected"), [(True, None, 2816**0.5), (False, 5.0, 5.0), (False, None, 1)]
)
def test_soft_embeddings_are_scaled_as_the_tokens_rows_are(
    root: bool, factor: float | None, expected: float
) -> None:
    def change(data: dict[str, Any]) -> None:
        data["inference"]["output"] |= {"scaleEmbeddings": root, "embeddingScale": factor}

    plan = diffusion_plan(change)
    (rows,), (soft,) = of_role(plan, "embed"), of_role(plan, "soften")
    assert rows.params["scale"] == soft.params["scale"] == expected


def test_a_factor_of_the_router_that_is_off_is_left_out(plan: Plan) -> None:
    router = "inference.diffusionGemma.router"
    bare = diffusion_plan(set_to(f"{router}.scaleHiddenStates", False))
    for norm in of_role(bare, "router_norm"):
        assert not norm.weights
        assert "gain" not in norm.params
    assert all(
        not op.weights for op in of_role(diffusion_plan(set_to(f"{router}.perExpertScale", False)), "route")
    )
    for found, on in ((plan, True), (diffusion_plan(set_to(f"{router}.normalizeTopK", False)), False)):
        assert {bool(op.params["normalize"]) for op in of_role(found, "route")} == {on}


def test_the_json_plan_has_its_states_sections_and_conditions(plan: Plan) -> None:
    data = plan_json(plan, "denoise", cost=True, rows=CANVAS, sequences=1)
    assert {state["name"] for state in data["states"]} == set(plan.states())
    sections = [op["weights"][0]["section"] for op in data["phases"]["denoise"] if op["role"] == "blend"]
    assert sections[1] == {"first": TILE, "count": TILE}
    assert data["outputs"] == {"denoise": [{"name": "progress", "shape": ("S", 4), "dtype": "u32"}]}
    assert data["cost"]["phases"]["denoise"]["flops"] > 0
    assert [value for value in plan.phases["denoise"][0].inputs if isinstance(value, State)]


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("inference.diffusionGemma.decoderCacheMode", "copy", "decoderCacheMode"),
        ("inference.diffusionGemma", None, "inference.diffusionGemma is null"),
        ("inference.attention.causal", False, "causal"),
        ("inference.ffn.branchMode", "dense", "branchMode"),
        ("session.kvcache.layout", "paged", "layout"),
        ("architecture.hiddenSizePerLayerInput", 8, "hiddenSizePerLayerInput"),
    ],
)
def test_what_this_model_type_does_not_run_is_an_error(path: str, value: Any, says: str) -> None:
    with pytest.raises((ManifestError, PlanError), match=re.escape(says)):
        diffusion_plan(set_to(path, value))


@pytest.mark.parametrize(
    ("name", "shape", "says"),
    [
        ("embed_tokens.weight", (262_143, 2816), "expected shape [262144, 2816]"),
        ("layers.7.experts.gate_up_proj", (128, 2816, 1408), "expected shape [128, 1408, 2816]"),
        ("layers.7.experts.down_proj", (64, 2816, 704), "expected shape [128, 2816, 704]"),
        ("layers.7.router.proj.weight", (64, 2816), "expected 128 outputs"),
        ("layers.7.router.per_expert_scale", (1,), "expected shape [128]"),
        ("layers.5.self_attn.k_proj.weight", (2048, 2816), "expected 2 heads of 512"),
        ("self_conditioning.gate_proj.weight", (2112, 2112), "expected shape [outputs, 2816]"),
        ("self_conditioning.up_proj.weight", (2000, 2816), "soft_up: expected 2112 outputs"),
        (
            "self_conditioning.down_proj.weight",
            (2000, 2112),
            "soft_down and embed: expected rows of one width",
        ),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(name: str, shape: tuple[int, ...], says: str) -> None:
    with pytest.raises(PlanError, match=re.escape(says)):
        lowered_with({f"model.decoder.{name}": shape})


def lowered_with(shapes: Mapping[str, tuple[int, ...] | None]) -> Plan:
    """The plan of a checkpoint in which these tensors have other shapes, or are not there."""
    manifest, _ = with_f32_activations(diffusion_manifest(), "the test says so")
    tensors = diffusion_tensors(manifest)
    for name, shape in shapes.items():
        if shape is None:
            del tensors[name]
        else:
            tensors[name] = dataclasses.replace(tensors[name], shape=shape)
    return DiffusionModelType().lower(manifest, tensors, ROOM)


SANDWICH = ("input_layernorm", "post_attention_layernorm")
FEEDFORWARD = ("pre_feedforward_layernorm", "post_feedforward_layernorm")
NORMS = {
    **{f"layers.0.{name}": 2816 for name in (*SANDWICH, *FEEDFORWARD, f"{FEEDFORWARD[1]}_1")},
    **{f"layers.0.{name}_2": 2816 for name in FEEDFORWARD},
    "layers.0.self_attn.q_norm": 256,
    "layers.5.self_attn.k_norm": 512,
    "self_conditioning.pre_norm": 2816,
    "norm": 2816,
}


@pytest.mark.parametrize("name", [*NORMS, "layers.0.router.scale"])
def test_a_norms_weight_of_another_length_is_named_whatever_it_divides(name: str) -> None:
    """A shorter one would pass for the weight of runs of so many values."""
    length, full = NORMS.get(name, 2816), f"model.decoder.{name}" + ".weight" * (name in NORMS)
    for shape in ((0,), (1,), (length // 2,), (length + 1,), (1, length)):
        with pytest.raises(PlanError, match=re.escape(f"{full}: expected shape [{length}]")):
            lowered_with({full: shape})


@pytest.mark.parametrize("stack", ["model.encoder.language_model", "model.decoder"])
def test_a_layers_factor_that_is_missing_is_named(stack: str) -> None:
    """The other phase's would be another number, and 1 too."""
    names = [f"{stack}.layers.{layer}.layer_scalar" for layer in range(LAYERS)]
    for missing in (names[:1], names[28:29], names):
        with pytest.raises(PlanError, match=re.escape(f"no tensor '{missing[0]}'")):
            lowered_with(dict.fromkeys(missing))


def test_nobody_misses_the_factor_of_what_is_not_run_nor_all_of_them() -> None:
    last = f"model.encoder.language_model.layers.{LAYERS - 1}.layer_scalar"
    assert lowered_with({last: None}).phases
    manifest, _ = with_f32_activations(diffusion_manifest(), "the test says so")
    without = {name: one for name, one in diffusion_tensors(manifest).items() if "layer_scalar" not in name}
    plan = DiffusionModelType().lower(manifest, without, ROOM)
    assert {op.params.get("gain", 1.0) for op in of_role(plan, "post_feedforward_norm")} == {1.0}
