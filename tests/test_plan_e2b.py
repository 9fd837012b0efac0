"""Gemma 4 E2B's plan, from its seed: what each layer runs, where keys and values come from, what fits where."""

import re
from collections import Counter
from typing import Any

import pytest
from e2b import ROOM, SCALAR, e2b_manifest, e2b_plan, e2b_tensors
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from doppler_core.errors import ManifestError, PlanError
from doppler_core.plan.cost import gpu_resident, least_bytes, phase_cost
from doppler_core.plan.op import HOST, Op, Plan, State
from doppler_core.plan.room import Room
from doppler_core.plan.show import plan_json, plan_lines
from doppler_plugins.model_types.causal import CausalModelType

LAYERS, FULL = 35, (4, 9, 14, 19, 24, 29, 34)
OWNERS = range(15)
# One layer of each kind stands for all: sliding and full, owning and sharing, and the last owner.
SHOWN = ("", "0", "4", "14", "15", "19")


class TextFile(SingleFileSnapshotExtension):
    """One readable file for each printed plan."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"


@pytest.fixture(scope="module")
def plan() -> Plan:
    return e2b_plan()


def of_role(plan: Plan, role: str, phase: str = "decode") -> list[Op]:
    return [op for op in plan.phases[phase] if op.role == role]


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_printed_plan(plan: Plan, phase: str, snapshot: SnapshotAssertion) -> None:
    lines = [re.sub(r"(#\w+ +)[0-9a-f]{8} ", r"\1........ ", line) for line in plan_lines(plan, phase)]
    kept = [line for line in lines if not re.match(r"  [ \d]{3} \w", line) or line[2:5].strip() in SHOWN]
    assert "\n".join(kept) + "\n" == snapshot(extension_class=TextFile)


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_an_owner_layer_takes_20_dispatches_and_a_sharing_layer_16(plan: Plan, phase: str) -> None:
    counts = Counter(op.layer for op in plan.phases[phase] if op.layer is not None)
    assert counts == {layer: 20 if layer in OWNERS else 16 for layer in range(LAYERS)}


def test_sharing_layers_read_the_last_owner_of_their_type(plan: Plan) -> None:
    for op in of_role(plan, "attention"):
        owner = op.layer if op.layer in OWNERS else 14 if op.layer in FULL else 13
        assert op.inputs[1].name == f"layers.{owner}.kv"
    assert [op.layer for op in of_role(plan, "store")] == list(OWNERS)


def test_full_layers_have_wider_heads_and_turn_64_pairs_of_them(plan: Plan) -> None:
    for op in of_role(plan, "rope_q"):
        table = op.constants[0].params
        if op.layer in FULL:
            assert (op.params["head_dim"], table["theta"], table["pairs"]) == (512, 1e6, 64)
        else:
            assert (op.params["head_dim"], table["theta"], table.get("pairs")) == (256, 1e4, None)


def test_scores_are_unscaled_and_sliding_layers_see_512_rows(plan: Plan) -> None:
    attention = of_role(plan, "attention")
    assert {op.params["scale"] for op in attention} == {1.0}
    assert {op.layer for op in attention if not op.params["window"]} == set(FULL)
    assert {op.params["window"] for op in attention} == {0, 512}


def test_sliding_layers_keep_their_window_and_a_step_and_full_layers_the_context(plan: Plan) -> None:
    states = plan.states()
    assert {states[f"layers.{layer}.kv"].capacity for layer in OWNERS if layer not in FULL} == {512 + 512}
    assert {states[f"layers.{layer}.kv"].capacity for layer in OWNERS if layer in FULL} == {8192}
    assert states["layers.4.kv"].columns == 2 * 512
    assert all(state.places == ROOM.slots for state in states.values())


@pytest.mark.parametrize(("context", "ring"), [(4096, True), (600, False)])
def test_rings_have_places_for_snapshots_and_states_of_the_whole_context_have_none(
    context: int, ring: bool
) -> None:
    states = e2b_plan(room=Room(context, 2, 512, snapshots=3)).states()
    sliding, full = states["layers.0.kv"], states["layers.4.kv"]
    assert (sliding.capacity, sliding.places) == ((1024, 2 + 3) if ring else (600, 2))
    assert (full.capacity, full.places) == (context, 2)


def test_a_prompt_runs_the_sharing_layers_on_the_last_rows_alone(plan: Plan) -> None:
    ops = plan.phases["prefill"]
    for op in ops:
        if op.layer is not None and not isinstance(op.output, State):
            assert op.output.shape[0] == ("T" if op.layer in OWNERS else "S")
    assert [op.role for op in ops if op.meaning == "last_rows"] == ["last_rows", "last_per_layer_inputs"]
    assert not [op for op in plan.phases["decode"] if op.meaning == "last_rows"]


def test_the_layers_factor_is_at_the_last_sum_and_the_inputs_at_their_places(plan: Plan) -> None:
    gains = {op.layer: op.params["gain"] for op in of_role(plan, "per_layer_norm")}
    assert gains == dict.fromkeys(range(LAYERS), SCALAR)
    firsts = {op.layer: op.params["up_first"] for op in of_role(plan, "per_layer_activation")}
    assert firsts == {layer: 256 * layer for layer in range(LAYERS)}
    (norm,) = of_role(plan, "per_layer_projection_norm")
    assert norm.params["gain"] == 2**-0.5
    assert norm.params["eps"] == pytest.approx(1e-6 * 1536)


def test_every_declared_step_is_used_or_void_with_its_reason(plan: Plan) -> None:
    used = {(op.layer, op.role) for op in plan.phases["decode"] if op.origin == "declared"}
    fused = {
        (op.layer, role) for op in plan.phases["decode"] for role in re.findall(r"fused: (\w+)", op.note)
    }
    stood_for = {(layer, "activation") for layer in range(LAYERS)}  # by the step `ffn`
    assert stood_for <= used
    shared = {(layer, role) for layer in range(15, LAYERS) for role in ("k_proj", "v_proj", "rope_k")}
    declared = {
        (layer, step[0])
        for layer in range(LAYERS)
        for step in e2b_json()["execution"]["decode"]
        if step[0] != "ffn"
    }
    assert declared - shared <= used | fused
    void = [finding for finding in plan.findings if finding.standing == "void"]
    assert {finding.where for finding in void} == {
        f"execution.{phase}: {role} of layers 15-34"
        for phase in ("prefill", "decode")
        for role in ("k_proj", "v_proj", "rope_k")
    }
    assert all(finding.reason for finding in void)


def e2b_json() -> dict[str, Any]:
    found: dict[str, Any] = {}
    e2b_manifest(found.update)
    return found


def test_towers_are_said_not_to_be_loaded(plan: Plan) -> None:
    found = {finding.where: finding.standing for finding in plan.findings}
    assert found["658 tensors of the vision tower"] == "not loaded"
    assert found["751 tensors of the audio tower"] == "not loaded"
    assert not [name for name in plan.weights() if "vision" in name or "audio" in name]
    assert not [where for where in found if where.startswith("tensor ")]


def test_keys_and_values_that_a_sharing_layer_has_are_left_with_a_reason() -> None:
    manifest = e2b_manifest()
    tensors = e2b_tensors(manifest)
    prefix = "model.language_model.layers.%d.self_attn.k_proj.weight"
    tensors[prefix % 20] = tensors[prefix % 0]
    found = CausalModelType().lower(manifest, tensors, ROOM).findings
    (finding,) = [one for one in found if one.where == f"tensor {prefix % 20}"]
    assert (finding.standing, finding.reason) == (
        "not loaded",
        "layer 20 reads the keys and values of layer 13",
    )


def set_to(path: str, value: Any) -> Any:
    def change(data: dict[str, Any]) -> None:
        *sections, last = path.split(".")
        for section in sections:
            data = data.setdefault(section, {})
        data[last] = value

    return change


def mode(value: str) -> Any:
    return set_to("session.perLayerInputs.materialization", value)


@pytest.mark.parametrize(
    ("value", "memory", "on_host"),
    [
        ("gpu_split_tables", 1, False),
        ("gpu_resident", 1, False),
        ("range_backed", None, True),
        ("cpu_resident", None, True),
        ("auto", None, False),
        ("auto", 12_000_000_000, False),
        ("auto", 8_000_000_000, True),
    ],
)
def test_the_table_of_per_layer_inputs_lies_where_the_manifest_or_the_memory_says(
    value: str, memory: int | None, on_host: bool
) -> None:
    plan = e2b_plan(mode(value), Room(8192, 4, 512, memory=memory))
    for phase in plan.phases:
        (gather,) = of_role(plan, "per_layer_embed", phase)
        assert (gather.kernel.file == HOST) == on_host
    (finding,) = [one for one in plan.findings if "perLayerInputs.materialization" in one.where]
    assert finding.standing == ("on the host" if on_host else "on the device")
    assert "4.70 GB" in finding.reason
    assert value in finding.where
    if memory is not None and value == "auto":
        assert (gpu_resident(plan) <= memory) or on_host


def test_rows_from_the_host_take_no_memory_of_the_device() -> None:
    table = 262_144 * 8960 * 2
    assert gpu_resident(e2b_plan(mode("gpu_split_tables"))) == table + gpu_resident(
        e2b_plan(mode("range_backed"))
    )


def test_the_least_bytes_count_weights_and_keys_and_values_once(plan: Plan) -> None:
    """1.877 G parameters in Q4_K, the tied head in f16, and 15 owners' rows, by hand; norms and tables are small."""
    linears = sum(
        144 * (weight.shape[0] * weight.shape[1] // 256)
        for weight in plan.weights().values()
        if weight.stored == "q4_k"
    )
    head = 262_144 * 1536 * 2
    rows = 12 * 2 * 256 * 2 * 512 + 3 * 2 * 512 * 2 * 1001  # 1,000 tokens in the past, one more now
    least = least_bytes(plan, "decode", 1, 1, 1000)
    assert linears == pytest.approx(1.06e9, rel=0.01)
    assert linears + head + rows < least < (linears + head + rows) * 1.002
    moved = phase_cost(plan, "decode", 1, 1, 1000).bytes
    assert moved > 2 * 1.87e9 + head  # as the seed is written, linears are f16 on the device


def test_the_json_plan_has_states_and_conditions(plan: Plan) -> None:
    data = plan_json(plan, "decode")
    assert {state["name"] for state in data["states"]} == set(plan.states())
    conditions = {op["role"]: op["when"] for op in data["phases"]["decode"]}
    assert conditions["sample"] == "greedy"
    assert conditions["adjust"] == conditions["draw"] == "draw"
    assert conditions["lm_head"] == ""


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("inference.attention.causal", False, "causal"),
        ("inference.ffn.branchMode", "dense_plus_moe", "branchMode"),
        ("session.compute.defaults.activationDtype", "f16", "activationDtype"),
        ("session.kvcache.layout", "paged", "layout"),
        ("session.kvcache.kvDtype", "f32", "precision.kvDtype is f16"),
        ("inference.rope.partialRotaryFactor", 0.5, "partialRotaryFactor"),
        ("inference.output.logitInputScale", 2, "logitInputScale"),
    ],
)
def test_what_this_model_type_does_not_run_is_an_error(path: str, value: object, says: str) -> None:
    def change(data: dict[str, Any]) -> None:
        set_to(path, value)(data)
        if path.endswith("activationDtype"):
            data["quantization"]["computePrecision"] = value

    with pytest.raises((ManifestError, PlanError), match=re.escape(says)):
        e2b_plan(change)


@pytest.mark.parametrize(
    ("name", "shape", "says"),
    [
        ("embed_tokens_per_layer.weight", (262_144, 8704), "expected shape [262144, 8960]"),
        ("per_layer_model_projection.weight", (8704, 1536), "expected 8960 outputs"),
        ("layers.7.per_layer_input_gate.weight", (128, 1536), "expected 256 outputs"),
        ("layers.20.mlp.up_proj.weight", (6144, 1536), "expected 12288 outputs"),
        ("layers.4.self_attn.k_proj.weight", (256, 1536), "expected 1 heads of 512"),
        ("layers.7.layer_scalar", (2,), "expected one value"),
        ("layers.7.layer_scalar", None, "no tensor 'model.language_model.layers.7.layer_scalar'"),
        ("layers.7.router.proj.weight", (128, 1536), "mixture of experts"),
    ],
)
def test_a_tensor_that_does_not_fit_or_is_missing_is_named(
    name: str, shape: tuple[int, ...] | None, says: str
) -> None:
    import dataclasses

    manifest = e2b_manifest()
    tensors = e2b_tensors(manifest)
    full = f"model.language_model.{name}"
    like = tensors.get(full, tensors["model.language_model.norm.weight"])
    if shape is None:
        del tensors[full]
    else:
        tensors[full] = dataclasses.replace(like, name=full, shape=shape)
    with pytest.raises(PlanError, match=re.escape(says)) as caught:
        CausalModelType().lower(manifest, tensors, ROOM)
    assert name.split(".")[-2] in str(caught.value) or "layers.7" in str(caught.value)


def test_per_layer_inputs_for_fewer_tokens_than_the_model_makes_are_refused() -> None:
    """A step would read past the table as soon as such a token came."""
    import dataclasses

    manifest, few = e2b_manifest(), (200_000, 8960)
    changed = manifest.architecture.model_copy(update={"vocab_size_per_layer_input": few[0]})
    manifest = manifest.model_copy(update={"architecture": changed})
    tensors = e2b_tensors(manifest)
    name = "model.language_model.embed_tokens_per_layer.weight"
    tensors[name] = dataclasses.replace(tensors[name], shape=few)
    with pytest.raises(PlanError, match="200000 rows for a vocabulary of 262144"):
        CausalModelType().lower(manifest, tensors, ROOM)
