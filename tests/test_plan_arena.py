"""The arena: values alive at one time never share a buffer, and the buffers are few."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from doppler_core.plan.arena import lay_out
from doppler_core.plan.op import HOST, ROWS, Kernel, Op, State, Value


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
