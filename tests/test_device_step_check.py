"""What a step may be: hostile tables are refused with what was expected; an active set names ops that fit together."""

from dataclasses import replace

import numpy as np
import pytest
from gpu_ops import packed_step

from doppler_core.device.executor import StepTables
from doppler_core.device.step_check import Bounds, bounds, check_group, check_step, running
from doppler_core.device.step_left import advanced
from doppler_core.errors import InputError
from doppler_core.plan.op import HOST, ROWS, Constant, Kernel, Op, Plan, State, Value, Weight

BOUNDS = Bounds(rows=8, sequences=3, vocabulary=50, positions=20, places=4, chunk=5)


def tables(lengths: list[int], start: int | list[int] = 0, places: tuple[int, ...] = (3, 0, 2)) -> StepTables:
    step = packed_step(lengths, start, places=places[: len(lengths)])
    return StepTables(step.rows, step.slots)


def changed(step: StepTables, table: str, where: tuple[int, int], value: int) -> StepTables:
    """The tables with one word changed."""
    copy = getattr(step, table).copy()
    copy[where] = value
    return replace(step, **{table: copy})


def test_a_step_that_fits_passes() -> None:
    check_step(BOUNDS, tables([5, 1, 2], [0, 19, 7]))


def test_slots_may_lie_in_any_order() -> None:
    step = tables([2, 3], [4, 0])
    step.slots[:] = step.slots[::-1].copy()
    step.rows[:, 2] = 1 - step.rows[:, 2]
    check_step(BOUNDS, step)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (tables([5, 4]), "9 rows in 2 sequences: expected 1 to 8 rows"),
        (changed(tables([3]), "rows", (2, 0), 50), "token id 50: expected less than 50"),
        (tables([2], 19), "position 20: expected less than 20"),
        (changed(tables([2]), "rows", (1, 2), 1), "a row names a slot"),
        (changed(tables([2]), "slots", (0, 0), 1), "a slot a row, that the step does not have"),
        (changed(tables([2]), "slots", (0, 3), 4), "place 4 of the states: expected less than 4"),
        (tables([1, 1], places=(2, 2)), r"two slots of a step have one place in the states: \[2, 2\]"),
        (changed(tables([3]), "slots", (0, 1), 2), r"slots of \[2\] rows in a step of 3"),
        (changed(tables([1, 2]), "slots", (0, 1), 0), r"slots of \[0, 2\] rows in a step of 3"),
        (changed(tables([3]), "rows", (1, 1), 5), "positions rising by one"),
        (changed(tables([2, 2]), "rows", (1, 2), 1), "one behind the other"),
        (changed(tables([2, 2]), "slots", (1, 0), 0), "one behind the other"),
        (tables([6]), "6 rows of one sequence in a step: the states' rings leave room for 5"),
        (replace(tables([2]), sampling=np.zeros((2, 16), np.uint32)), r"shape \(2, 16\): expected \(1, 16\)"),
        (changed(tables([2]), "slots", (0, 1), 2**32 - 1), "a slot a row, that the step does not have"),
    ],
)  # fmt: skip
def test_a_step_that_does_not_fit_is_refused(step: StepTables, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_step(BOUNDS, step)


KV = State("kv", (4 * 12, 8), "f16", capacity=12)
RING = State("ring", (4 * 7, 8), "f16", capacity=7)
X, LOGITS, SAMPLED = Value("x", ("T", 8)), Value("logits", ("S", 50)), Value("sampled", ("S", 1), "u32")


def op(
    meaning: str,
    inputs: tuple[Value, ...],
    output: Value,
    *,
    when: str = "",
    file: str = "k.wgsl",
    **rest: object,
) -> Op:
    return Op(meaning, meaning, None, Kernel(file, "main", ""), inputs, output, when=when, **rest)  # type: ignore[arg-type]


OPS = (
    op("gather", (), X, weights=(Weight("table", (50, 8), "f32", "f32"),)),
    op("rope", (X,), X, constants=(Constant("turns", "rope", (30, 4, 2), {}),)),
    op("cached_attention", (X, KV), X, params={"capacity": 12, "window": 0}),
    op("cached_attention", (X, RING), X, params={"capacity": 7, "window": 4}),
    op("matmul", (X,), LOGITS),
    op("sample", (LOGITS,), SAMPLED, when="greedy"),
    op("draw", (LOGITS,), SAMPLED, when="draw"),
    op("advance", (SAMPLED,), ROWS, when="advance"),
)  # fmt: skip


def test_bounds_follow_from_tables_rings_and_places() -> None:
    found = bounds(Plan("p", {"decode": OPS}, {"decode": (SAMPLED,)}), 6, 2)["decode"]
    # A ring of 7 rows with a window of 4 takes 4 new rows: the first of them sees the 3 before it.
    assert found == Bounds(rows=6, sequences=2, vocabulary=50, positions=12, places=4, chunk=4)


def test_a_ring_as_large_as_the_context_takes_any_step() -> None:
    """A window above the context leaves no room behind it, and needs none: no position is written twice."""
    ops = tuple(
        replace(each, params={"capacity": 12, "window": 40}) if each.params.get("window") else each
        for each in OPS
    )
    found = bounds(Plan("p", {"decode": ops}, {"decode": (SAMPLED,)}), 12, 2)
    check_step(found["decode"], tables([12], places=(1,)))


CANVAS = State("canvas", (2 * 3, 4), "u32", capacity=3)
SEATED = (op("seat", (CANVAS,), ROWS, params={"capacity": 3}), *OPS[:5])


def test_a_step_of_canvases_has_at_most_a_canvas_of_rows_each_and_settings_for_all() -> None:
    plan = Plan("p", {"encode": OPS[:5], "denoise": SEATED}, {"encode": (), "denoise": (LOGITS,)})
    found = bounds(plan, 8, 3)
    check_step(found["encode"], tables([4, 4], places=(1, 0)))
    canvases = replace(tables([3, 2], places=(1, 0)), sampling=np.zeros((2, 16), np.uint32))
    check_step(found["denoise"], canvases)
    with pytest.raises(InputError, match=r"4 rows of one sequence in a step: .* leave room for 3"):
        check_step(found["denoise"], replace(tables([4], places=(1,)), sampling=np.zeros((1, 16), np.uint32)))
    with pytest.raises(InputError, match="a step of canvases without a sampling table"):
        check_step(found["denoise"], replace(canvases, sampling=None))
    # The canvases' states have fewer places than those of keys and values.
    with pytest.raises(InputError, match="place 2 of the states: expected less than 2"):
        check_step(found["encode"], tables([1], places=(2,)))


def test_nothing_goes_on_from_the_tokens_of_a_canvas() -> None:
    step = tables([1])
    assert advanced("denoise", step, SEATED, 1) is None
    with pytest.raises(InputError, match="no op of the step puts the sampled token into the next one's rows"):
        check_group(BOUNDS, step, SEATED, 2)


def test_a_step_runs_what_it_asks_for() -> None:
    assert [each.role for each in running("decode", OPS, frozenset())] == [each.role for each in OPS[:5]]
    chosen = running("decode", OPS, frozenset({"draw", "advance"}))
    assert [each.role for each in chosen[5:]] == ["draw", "advance"]


@pytest.mark.parametrize(
    ("active", "message"),
    [
        ({"greedy", "sing"}, r"phase 'decode' has no ops for \['sing'\]"),
        ({"advance"}, r"advance reads \['sampled'\], which no op of it writes"),
    ],
)
def test_half_of_what_is_needed_is_refused(active: set[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        running("decode", OPS, frozenset(active))


@pytest.mark.parametrize(
    ("steps", "step", "ops", "message"),
    [
        (0, tables([1]), OPS, "steps=0: expected at least 1"),
        (2, tables([1]), OPS[:-1], "no op of the step puts the sampled token into the next one's rows"),
        (2, tables([1]), (op("gather", (), X, file=HOST), *OPS[1:]), "an op that the host computes needs steps=1"),
        (2, tables([1, 2]), OPS, "expected one row a slot"),
        (4, tables([1, 1], [3, 17]), OPS, "steps=4 end at position 20: expected less than 20"),
    ],
)  # fmt: skip
def test_a_group_that_the_device_can_not_run_by_itself_is_refused(
    steps: int, step: StepTables, ops: tuple[Op, ...], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        check_group(BOUNDS, step, ops, steps)


def test_a_group_up_to_the_last_position_passes() -> None:
    check_group(BOUNDS, tables([1, 1], [3, 17]), OPS, 3)
