"""The arena: values alive at one time never share a buffer, and the buffers are few."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from diffusion26b import diffusion_plan
from e2b import e2b_plan
from hypothesis import given
from hypothesis import strategies as st

from doppler_core.device.numpy_bound import group
from doppler_core.plan.arena import lay_out, shared
from doppler_core.plan.cost import step_bytes
from doppler_core.plan.op import HOST, ROWS, Kernel, Op, Plan, State, Value


def op(output: Value, *inputs: Value, file: str = "any.wgsl") -> Op:
    return Op("any", "any", None, Kernel(file, "main", ""), inputs, output)


@st.composite
def phases(draw: st.DrawFn) -> list[Op]:
    """Ops in a row, each reading up to three of the values made before it."""
    ops: list[Op] = []
    for index in range(draw(st.integers(1, 30))):
        made = [each.output for each in ops]
        inputs = draw(st.lists(st.sampled_from(made), max_size=3)) if made else []
        dim = draw(st.sampled_from(["T", "S"]))
        ops.append(op(Value(f"v{index}", (dim, draw(st.integers(1, 2000)))), *inputs))
    return ops


@given(phases(), st.integers(1, 500), st.integers(1, 40), st.data())
def test_no_value_is_overwritten_while_somebody_still_reads_it(
    ops: list[Op], rows: int, sequences: int, data: st.DataObject
) -> None:
    kept = data.draw(st.sets(st.sampled_from([each.output.name for each in ops])))
    arena = lay_out(ops, kept, rows, sequences)
    holds: dict[int, str] = {}
    for each in ops:
        for value in each.inputs:
            assert holds[arena.place[value.name]] == value.name
        assert arena.place[each.output.name] not in {arena.place[value.name] for value in each.inputs}
        holds[arena.place[each.output.name]] = each.output.name
        assert arena.sizes[arena.place[each.output.name]] >= each.output.bytes(rows, sequences)
    assert kept <= set(holds.values())


@given(phases(), st.integers(1, 500), st.integers(1, 40))
def test_it_is_never_larger_than_a_buffer_for_each_value(ops: list[Op], rows: int, sequences: int) -> None:
    arena = lay_out(ops, [], rows, sequences)
    assert arena.bytes <= sum(each.output.bytes(rows, sequences) for each in ops)


def test_a_chain_of_any_length_needs_two_buffers() -> None:
    values = [Value(f"v{index}", ("T", 64)) for index in range(100)]
    ops = [op(values[0]), *[op(after, before) for before, after in pairwise(values)]]
    assert lay_out(ops, ["v99"], 10, 1).sizes == (2560, 2560)


def test_states_and_tables_are_not_laid_out() -> None:
    kv, x = State("kv", (8, 4), "f16", capacity=4), Value("x", ("T", 4))
    ops = [op(x), op(kv, x, kv), op(ROWS, x)]
    assert lay_out(ops, [], 10, 1).place == {"x": 0}


def test_what_the_host_computes_has_a_place_that_nothing_uses_before_it() -> None:
    early, late, end = Value("early", ("T", 4)), Value("late", ("T", 4)), Value("end", ("T", 4))
    ops = [
        op(early),
        op(Value("y", ("T", 4)), early),
        op(late, file=HOST),
        op(end, Value("y", ("T", 4)), late),
    ]
    arena = lay_out(ops, ["end"], 10, 1)
    assert arena.place["late"] not in (arena.place["early"], arena.place["y"])


def test_a_value_that_two_ops_may_write_has_one_place() -> None:
    x, chosen = Value("x", ("S", 4)), Value("chosen", ("S", 1), "u32")
    arena = lay_out([op(x), op(chosen, x), op(chosen, x)], ["chosen"], 10, 1)
    assert arena.place["chosen"] != arena.place["x"]
    assert len(arena.sizes) == 2


def test_phases_share_buffers_by_size_in_whatever_order_they_ask_for_them() -> None:
    small, large, end = Value("small", ("T", 4)), Value("large", ("T", 400)), Value("end", ("T", 1))
    arenas = [
        lay_out([op(small), op(large), op(end, small, large)], ["end"], 10, 1),
        lay_out([op(large), op(small), op(end, small, large)], ["end"], 10, 1),
    ]
    assert sum(shared(arenas)) == arenas[0].bytes == arenas[1].bytes


@given(st.lists(phases(), min_size=1, max_size=4), st.integers(1, 500), st.integers(1, 40))
def test_what_phases_share_has_room_for_each_of_them(
    several: list[list[Op]], rows: int, sequences: int
) -> None:
    arenas = [lay_out(ops, [], rows, sequences) for ops in several]
    sizes = shared(arenas)
    for ops, arena in zip(several, arenas, strict=True):
        assert sorted(arena.sizes, reverse=True) == list(arena.sizes)
        for each in ops:
            assert sizes[arena.place[each.output.name]] >= each.output.bytes(rows, sequences)
    assert max(arena.bytes for arena in arenas) <= sum(sizes) <= sum(arena.bytes for arena in arenas)


@pytest.mark.parametrize("lowered", [diffusion_plan, e2b_plan])
def test_at_full_size_numpys_buffers_have_room_in_what_the_plan_says(lowered: Callable[[], Plan]) -> None:
    """It runs row ops together, whose values then can't share a buffer, so that its arena is another one."""
    plan = lowered()
    rows, sequences = plan.largest.rows, plan.largest.sequences
    arenas = []
    for phase, ops in plan.phases.items():
        together = [number for number, each in enumerate(group(ops)) for _ in each.ops]
        arenas.append(lay_out(ops, plan.kept(phase), rows, sequences, together, in_words=True))
    assert 0.8 * step_bytes(plan, in_words=True) < sum(shared(arenas)) <= step_bytes(plan, in_words=True)
