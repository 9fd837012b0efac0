"""A kernel profile's fusions: how few dispatches they leave, that they change nothing, and where they keep away."""

import dataclasses
import re
from collections import Counter
from pathlib import Path

import pytest
from e2b import e2b_plan
from oracle import Oracle
from syrupy.assertion import SnapshotAssertion
from test_causal_goldens import CHUNK, FOLDER, relative, step
from test_plan_e2b import LAYERS, OWNERS, SHOWN, TextFile
from test_plan_fuse import gather, norm, value

from doppler_core.manifest.load import load_manifest
from doppler_core.plan.check import check
from doppler_core.plan.cost import gpu_resident, least_bytes, phase_cost
from doppler_core.plan.fusions import apply_fusions
from doppler_core.plan.op import Kernel, Op, Plan, State, Value, Weight
from doppler_core.plan.profile import apply_profile, profiles
from doppler_core.plan.room import Room
from doppler_core.plan.show import plan_lines
from doppler_core.settings import EngineSettings
from doppler_core.weights.artifact import open_artifact
from doppler_plugins.conversion import convert_checkpoint, resolve_checkpoint
from doppler_plugins.model_types.causal import CausalModelType

PACKED = profiles()["packed"]
GEMV = Kernel("fused_matmul_q4.wgsl", "main_gemv", "")


@pytest.fixture(scope="module")
def packed() -> Plan:
    return check(apply_profile(e2b_plan(), PACKED, storage_buffers=10))


def test_printed_plan(packed: Plan, snapshot: SnapshotAssertion) -> None:
    lines = [re.sub(r"(#\w+ +)[0-9a-f]{8} ", r"\1........ ", line) for line in plan_lines(packed, "decode")]
    kept = [line for line in lines if re.match(r"  [ \d]{3} \w", line) and line[2:5].strip() in SHOWN]
    assert "\n".join(kept) + "\n" == snapshot(extension_class=TextFile)


def test_a_decoded_token_takes_at_most_12_dispatches_a_layer_and_each_fusion_is_printed(packed: Plan) -> None:
    ops = packed.phases["decode"]
    counts = Counter(op.layer for op in ops if op.layer is not None)
    assert counts == {layer: 11 if layer in OWNERS else 10 for layer in range(LAYERS)}
    assert max(counts.values()) <= 12
    declared = {op.role for op in e2b_plan().phases["decode"] if op.layer == 3}
    said = {role for op in ops if op.layer == 3 for role in re.findall(r"\w+", op.role + " " + op.note)}
    assert declared <= said


def test_the_bytes_moved_are_at_most_a_tenth_above_the_least_possible(packed: Plan) -> None:
    for past in (0, 1000, 8000):
        moved = phase_cost(packed, "decode", 1, 1, past).bytes
        assert moved <= 1.1 * least_bytes(packed, "decode", 1, 1, past)


def test_linears_stay_packed_once_for_both_phases(packed: Plan) -> None:
    weights = packed.weights().values()
    linears = sum(weight.resident_bytes for weight in weights if weight.stored == "q4_k")
    assert linears == pytest.approx(1.06e9, rel=0.02)
    assert {weight.dtype for weight in weights if weight.stored == "q4_k"} == {"q4_k"}
    assert gpu_resident(e2b_plan()) - gpu_resident(packed) > 2.5e9


@pytest.mark.parametrize("name", ["gemma4", "gemma4_dense", "gemma3"])
def test_a_fused_plan_computes_what_the_plan_computes(name: str, tmp_path: Path) -> None:
    found = resolve_checkpoint(FOLDER / name, EngineSettings(precision="q4k"))
    artifact = open_artifact(convert_checkpoint(found, EngineSettings(), tmp_path / "q4k").path)
    manifest = load_manifest(artifact.manifest)
    plain = check(CausalModelType().lower(manifest, artifact.tensors, Room(64, 3, CHUNK)))
    plan = check(apply_profile(plain, PACKED))
    assert len(plan.phases["decode"]) < len(plain.phases["decode"]) - 4 * (
        manifest.architecture.num_layers or 0
    )
    oracles = [Oracle(one, artifact.tensors) for one in (plan, plain)]
    for position, token in enumerate([2, 91, 300, 17, 5, 44, 44, 260, 9, 10]):
        fused, expected = (oracle.run("decode", step([token], position)) for oracle in oracles)
        shared = set(fused) & set(expected)
        assert len(shared) > 4 * (manifest.architecture.num_layers or 0)
        for each in shared:
            # f32 sums of the same products in another order.
            assert relative(fused[each], expected[each]) < 2e-5, each


def product(name: str, x: Value, rows: int, kernel: Kernel = GEMV) -> Op:
    weight = Weight(f"{name}.weight", (rows, x.columns), "q4_k", "q4_k")
    params = {"columns": rows, "inner": x.columns}
    return Op("matmul", name, None, kernel, (x,), value(name, rows), (weight,), params=params)


def fused(*ops: Op, kept: tuple[Value, ...] = ()) -> tuple[Op, ...]:
    plan = Plan("m", {"p": ops}, {"p": (*kept, ops[-1].output)})
    return apply_fusions(plan, PACKED.fusions).phases["p"]


def stored(k: Value, v: Value) -> Op:
    state = State("kv", (16, 128), "f16", capacity=8)
    params = {"columns": 64, "head_dim": 32, "capacity": 8, "value_norm": False}
    return Op("store", "store", None, Kernel("store.wgsl", "main", ""), (k, v, state), state, params=params)


def test_products_of_one_norm_lie_side_by_side() -> None:
    x = gather("x")
    a = norm("a", x.output)
    k, v = product("k", a.output, 64), product("v", a.output, 64)
    _, joined, store = fused(x, a, k, v, stored(k.output, v.output))
    assert (joined.meaning, joined.role, joined.output.columns) == ("projections", "k+v", 128)
    assert [weight.name for weight in joined.weights] == ["a.weight", "k.weight", "v.weight"]
    assert (joined.params["a_rows"], joined.params["b_rows"]) == (64, 64)
    assert store.inputs[0] == store.inputs[1] == joined.output
    assert (store.params["k_first"], store.params["v_first"]) == (0, 64)


def test_a_product_alone_keeps_its_value() -> None:
    x = gather("x")
    a = norm("a", x.output)
    _, joined = fused(x, a, product("q", a.output, 64))
    assert (joined.meaning, joined.role, joined.output.name) == ("projections", "q", "q")


@pytest.mark.parametrize(
    "change",
    [
        lambda a, k, v: (a, k, dataclasses.replace(v, kernel=Kernel("matmul_f32.wgsl", "main", ""))),
        lambda a, k, v: (dataclasses.replace(a, params={**a.params, "gain": 0.5}), k, v),
        lambda a, k, v: (a, k, dataclasses.replace(v, when="draw")),
        lambda a, k, v: (dataclasses.replace(a, inputs=(*a.inputs, a.inputs[0])), k, v),
    ],
    ids=["another kernel", "a gain", "a condition", "a residual"],
)
def test_products_that_do_not_go_together_are_left(change) -> None:  # type: ignore[no-untyped-def]
    x = gather("x")
    a = norm("a", x.output)
    k, v = product("k", a.output, 64), product("v", a.output, 64)
    ops = (x, *change(a, k, v), stored(k.output, v.output))
    assert fused(*ops) == ops


def test_a_norm_that_somebody_else_reads_is_left() -> None:
    x = gather("x")
    a = norm("a", x.output)
    k, v = product("k", a.output, 64), product("v", a.output, 64)
    ops = (x, a, k, v, stored(k.output, v.output))
    assert fused(*ops, kept=(a.output,)) == ops
    assert fused(*ops, kept=(k.output,)) == ops


def test_four_products_are_more_than_a_kernel_binds() -> None:
    x = gather("x")
    a = norm("a", x.output)
    ops = (x, a, *(product(name, a.output, 64) for name in "bcde"))
    assert fused(*ops) == ops
