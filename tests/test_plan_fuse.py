"""Fusion changes how many ops run and nothing that they compute; where a kernel can't do both, it leaves them."""

import dataclasses

import numpy as np
import pytest
from oracle import Oracle
from test_causal_goldens import CHUNK, MODELS, model, relative, step

from doppler_core.plan.fuse import fuse
from doppler_core.plan.op import Constant, Kernel, Op, Plan, State, Value, Weight

NORM = Kernel("rmsnorm.wgsl", "main", "")
RESIDUAL = Kernel("residual.wgsl", "main", "")
ROPE = Kernel("rope.wgsl", "main", "")
STORE = Kernel("store.wgsl", "main", "")
NUMERICS = {"eps": 1e-6, "offset": 0.0}


def value(name: str, columns: int = 64) -> Value:
    return Value(name, ("T", columns))


def gather(name: str, columns: int = 64) -> Op:
    table = Weight(f"{name}.table", (9, columns), "f32", "f32")
    params = {"columns": columns, "scale": 1.0}
    kernel = Kernel("gather.wgsl", "main", "")
    return Op("gather", name, None, kernel, (), value(name, columns), (table,), params=params)


def norm(name: str, x: Value, run: int = 64, weight: bool = True) -> Op:
    weights = (Weight(f"{name}.weight", (run,), "f32", "f32"),) if weight else ()
    out = dataclasses.replace(x, name=name)
    return Op("rmsnorm", name, None, NORM, (x,), out, weights, params={**NUMERICS, "columns": run})


def residual(name: str, a: Value, b: Value, gain: float = 1.0, kernel: Kernel = RESIDUAL) -> Op:
    params = {"columns": a.columns, "gain": gain}
    return Op("residual", name, None, kernel, (a, b), dataclasses.replace(a, name=name), params=params)


def fused(*ops: Op, kept: tuple[Value, ...] = ()) -> tuple[Op, ...]:
    return fuse(Plan("m", {"p": ops}, {"p": (*kept, ops[-1].output)})).phases["p"]


def test_a_norm_takes_its_residual_and_the_factor_of_the_sum() -> None:
    x, h = gather("x"), gather("h")
    first, second = norm("normed", h.output), residual("sum", x.output, value("normed"), 0.5)
    *_, last = fused(x, h, first, second)
    assert (last.meaning, last.role, last.output.name) == ("rmsnorm", "normed", "sum")
    assert [one.name for one in last.inputs] == ["h", "x"]
    assert last.params["gain"] == 0.5
    assert last.note == "fused: sum"


def test_a_value_that_others_read_is_not_fused_away() -> None:
    x, h = gather("x"), gather("h")
    first, second = norm("normed", h.output), residual("sum", x.output, value("normed"))
    twice = residual("twice", value("sum"), value("normed"))
    assert len(fused(x, h, first, second, twice)) == 5
    assert len(fused(x, h, first, second, kept=(value("normed"),))) == 4


def test_a_norm_of_heads_goes_into_their_rotation_and_another_does_not() -> None:
    x = gather("x")
    params = {"heads": 2, "head_dim": 32}
    table = Constant("table", "rope", (9, 16, 2), {})
    turn = Op("rope", "turned", None, ROPE, (value("normed"),), value("turned"), (), (table,), params=params)
    *_, last = fused(x, norm("normed", x.output, 32), turn)
    assert (last.role, last.weights[0].name, last.params["eps"]) == ("turned", "normed.weight", 1e-6)
    assert len(fused(x, norm("normed", x.output, 64), turn)) == 3


def test_a_bare_norm_goes_into_the_store_as_the_values_norm_alone() -> None:
    k, v, state = gather("k"), gather("v"), State("kv", (16, 128), "f16", capacity=8)
    params = {"columns": 64, "head_dim": 32, "capacity": 8, "value_norm": False}

    def stored(first: Value, second: Value) -> Op:
        return Op("store", "store", None, STORE, (first, second, state), state, params=params)

    bare = norm("normed", v.output, 32, weight=False)
    *_, last = fused(k, v, bare, stored(k.output, value("normed")), kept=(k.output,))
    assert last.params["value_norm"]
    assert [one.name for one in last.inputs] == ["k", "v", "kv"]
    assert len(fused(k, v, bare, stored(value("normed"), k.output), kept=(k.output,))) == 4
    weighted = norm("normed", v.output, 32)
    assert len(fused(k, v, weighted, stored(k.output, value("normed")), kept=(k.output,))) == 4


def test_ops_that_a_step_must_ask_for_are_left_alone() -> None:
    x, h = gather("x"), gather("h")
    first, second = norm("normed", h.output), residual("sum", x.output, value("normed"))
    assert len(fused(x, h, first, dataclasses.replace(second, when="draw"))) == 4


@pytest.mark.parametrize("name", MODELS)
def test_a_fused_plan_computes_what_the_plan_computes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    of = model(name)
    monkeypatch.setattr("doppler_plugins.model_types.causal.fuse", lambda plan: plan)
    plain = model.__wrapped__(name)
    assert len(plain.plan.phases["decode"]) >= len(of.plan.phases["decode"]) + 4 * len(of.layers)
    ids = of.ids.tolist()[:CHUNK]
    found = Oracle(of.plan, of.tensors).run("prefill", step(ids, 0))
    expected = Oracle(plain.plan, plain.tensors).run("prefill", step(ids, 0))
    shared = [value for value in found if value in expected]
    assert set(of.layers) <= set(shared)
    for each in shared:
        assert relative(found[each], expected[each]) < 1e-5, each
    assert np.array_equal(found["rows"], expected["rows"])
