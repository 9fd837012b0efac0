"""Checks of whole plans: who may write what, and which states and tables there are."""

import dataclasses
import re

import pytest

from doppler_core.errors import PlanError
from doppler_core.plan.check import check
from doppler_core.plan.op import ROWS, Kernel, Op, Plan, State, Value, Weight
from doppler_core.plan.reading import agreed

LOGITS = Value("logits", ("S", 64))
SAMPLED = Value("sampled", ("S", 1), "u32")
COUNTS = State("counts", (2, 64), "u32")


def logits(name: str = "logits") -> Op:
    table = Weight("table", (64, 64), "f32", "f32")
    params = {"columns": 64, "scale": 1.0}
    kernel = Kernel("gather.wgsl", "main", "")
    return Op(
        "gather", name, None, kernel, (), dataclasses.replace(LOGITS, name=name), (table,), params=params
    )


def sample(when: str, read: Value = LOGITS) -> Op:
    kernel = Kernel("sample.wgsl", "sample_single_pass", "")
    return Op("sample", when or "sample", None, kernel, (read,), SAMPLED, params={"columns": 64}, when=when)


def count(state: State = COUNTS) -> Op:
    kernel, params = Kernel("count.wgsl", "main", ""), {"vocabulary": 64}
    return Op("count", "count", None, kernel, (SAMPLED, state), state, params=params, when="count")


def advance() -> Op:
    kernel, params = Kernel("advance.wgsl", "main", ""), {"vocabulary": 64}
    return Op("advance", "advance", None, kernel, (SAMPLED,), ROWS, params=params, when="advance")


def checked(*ops: Op) -> Plan:
    return check(Plan("m", {"p": ops}, {"p": (SAMPLED,)}))


def test_two_ops_may_write_a_value_if_no_step_asks_for_both() -> None:
    assert checked(logits(), sample("greedy"), sample("draw"))


@pytest.mark.parametrize("conditions", [("", "draw"), ("draw", ""), ("draw", "draw"), ("", "")])
def test_two_ops_that_a_step_may_both_run_are_refused(conditions: tuple[str, str]) -> None:
    with pytest.raises(PlanError, match="writes 'sampled', which was written before"):
        checked(logits(), *map(sample, conditions))


def test_a_state_may_be_read_and_written_at_any_time_and_the_rows_be_advanced() -> None:
    assert checked(logits(), sample(""), count(), count(), advance())


def test_one_name_is_one_state() -> None:
    with pytest.raises(
        PlanError, match=r"state 'counts' is u32\[3, 64\] here and u32\[2, 64\] in another op"
    ):
        checked(logits(), sample(""), count(), count(State("counts", (3, 64), "u32")))


def test_a_value_that_nothing_writes_is_named() -> None:
    with pytest.raises(PlanError, match="reads 'other', which no op before it writes"):
        checked(logits(), sample("", Value("other", ("S", 64))))
    with pytest.raises(PlanError, match="no op writes its output 'sampled'"):
        checked(logits())


def two_readers(stored: str, second: str) -> Plan:
    """A tied table: looked up, and multiplied by."""
    table = Weight("table", (64, 64), stored, "f32" if stored == "bf16" else stored)  # type: ignore[arg-type]
    head = dataclasses.replace(table, dtype=second)  # type: ignore[arg-type]
    kernel = Kernel({"f16": "matmul_f16w_f32a.wgsl", "f32": "matmul_f32.wgsl"}[second], "main", "")
    params = {"columns": 64, "inner": 64}
    x = Value("x", ("S", 64))
    ops = (
        dataclasses.replace(logits("x"), weights=(table,)),
        Op("matmul", "lm_head", None, kernel, (x,), LOGITS, (head,), params=params),
        sample(""),
    )
    return Plan("m", {"p": ops}, {"p": (SAMPLED,)})


def test_a_tensor_with_two_readers_is_read_in_a_type_that_both_take() -> None:
    plan = two_readers("bf16", "f16")
    with pytest.raises(PlanError, match="lm_head reads table as f16, an op before it as f32"):
        check(plan)
    assert {weight.dtype for op in check(agreed(plan)).ops() for weight in op.weights} == {"f16"}


def test_readers_with_no_type_in_common_are_named() -> None:
    plan = two_readers("bf16", "f16")
    packed = Kernel("matmul_q8_0.wgsl", "main", "")
    ops = plan.phases["p"]
    changed = (ops[0], dataclasses.replace(ops[1], kernel=packed), ops[2])
    says = "table, stored as bf16: gather.wgsl#main of x reads it as"
    with pytest.raises(PlanError, match=re.escape(says)):
        agreed(dataclasses.replace(plan, phases={"p": changed}))
