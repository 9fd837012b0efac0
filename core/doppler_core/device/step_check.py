"""What a step may be: its tables checked against the plan, and which ops it runs. Both executors use it.

What it lets pass, no executor reads or writes past the end of anything: a GPU would give zeros and say nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from doppler_core.device.executor import StepTables
from doppler_core.device.step_left import advances
from doppler_core.errors import InputError
from doppler_core.plan.op import HOST, ROWS, SAMPLING, Op, Plan, State

Table = npt.NDArray[np.uint32]

_ANY = 1 << 32  # as much as a table of the step can say


@dataclass(frozen=True)
class Bounds:
    """The largest step of a phase, and where its tables end.

    vocabulary, positions: token ids and positions are less. places: of the states, 0 = the plan keeps none. chunk: the
    most rows a sequence may have in a step, so that a ring does not overwrite what the step still reads. canvas: the
    rows of each sequence are a canvas, which the sampling table says how to take on.
    """

    rows: int
    sequences: int
    vocabulary: int
    positions: int
    places: int
    chunk: int
    canvas: bool = False


def bounds(plan: Plan, max_rows: int, max_slots: int) -> dict[str, Bounds]:
    """The bounds of each phase's steps of up to `max_rows` rows in `max_slots` sequences."""
    common = _common(plan, max_rows, max_slots)
    return {phase: _of_phase(common, ops) for phase, ops in plan.phases.items()}


def _of_phase(common: Bounds, ops: Sequence[Op]) -> Bounds:
    """A canvas has as many lines in its states as it has tokens."""
    canvases = [int(op.params["capacity"]) for op in ops if op.meaning == "seat"]
    return replace(common, chunk=min(common.chunk, *canvases), canvas=True) if canvases else common


def _common(plan: Plan, max_rows: int, max_slots: int) -> Bounds:
    ops = list(plan.ops())
    cached = [
        (int(op.params["capacity"]), int(op.params["window"]))
        for op in ops
        if op.meaning == "cached_attention"
    ]
    positions = _least(
        [op.constants[0].shape[0] for op in ops if op.meaning == "rope"]
        + [capacity for capacity, window in cached if not window]
    )
    return Bounds(
        rows=max_rows,
        sequences=max_slots,
        vocabulary=_least(op.weights[0].shape[0] for op in ops if op.meaning == "gather"),
        positions=positions,
        places=_least(state.places for state in plan.states().values()) if plan.states() else 0,
        # A ring as large as the context never turns.
        chunk=_least(capacity - window + 1 for capacity, window in cached if window and capacity < positions),
    )


def _least(sizes: Iterable[int]) -> int:
    return min(sizes, default=_ANY)


def check_step(limits: Bounds, tables: StepTables) -> None:
    """InputError says what of the tables does not fit, and what would."""
    rows, slots = tables.rows, tables.slots
    if not (0 < len(rows) <= limits.rows and 0 < len(slots) <= limits.sequences):
        raise InputError(
            f"a step of {len(rows)} rows in {len(slots)} sequences: expected 1 to {limits.rows} rows "
            f"and 1 to {limits.sequences} sequences"
        )
    for column, (name, size) in enumerate((("token id", limits.vocabulary), ("position", limits.positions))):
        if int(rows[:, column].max()) >= size:
            raise InputError(f"{name} {int(rows[:, column].max())}: expected less than {size}")
    ends = slots[:, 0].astype(np.int64) + slots[:, 1]
    if int(rows[:, 2].max()) >= len(slots) or int(ends.max()) > len(rows):
        raise InputError("a row names a slot, or a slot a row, that the step does not have")
    if tables.sampling is not None and tables.sampling.shape != (len(slots), SAMPLING.columns):
        raise InputError(
            f"a sampling table of shape {tables.sampling.shape}: expected ({len(slots)}, {SAMPLING.columns})"
        )
    if limits.canvas and tables.sampling is None:
        raise InputError(
            "a step of canvases without a sampling table: expected a line for each slot (plan.canvas)"
        )
    if limits.places:
        _check_places(limits, slots)
        _check_sequences(limits, rows, slots)


def _check_places(limits: Bounds, slots: Table) -> None:
    places = slots[:, 3].tolist()
    if max(places) >= limits.places:
        raise InputError(f"place {max(places)} of the states: expected less than {limits.places}")
    if len(set(places)) < len(places):
        raise InputError(f"two slots of a step have one place in the states: {places}")


def _check_sequences(limits: Bounds, rows: Table, slots: Table) -> None:
    """Each slot's rows are its own, one behind the other, at consecutive positions."""
    count = slots[:, 1].astype(np.int64)
    slot = np.repeat(np.arange(len(slots)), count)
    if int(count.min()) < 1 or len(slot) != len(rows):
        raise InputError(
            f"slots of {count.tolist()} rows in a step of {len(rows)}: expected each row in one slot"
        )
    nth = np.arange(len(rows)) - (np.cumsum(count) - count)[slot]  # 0, 1, ... within each slot
    line = rows[slots[slot, 0] + nth].astype(np.int64)
    if not np.array_equal(line[:, 2], slot) or not np.array_equal(
        line[:, 1] - line[:, 1][nth == 0][slot], nth
    ):
        raise InputError("expected each slot's rows one behind the other, their positions rising by one")
    if int(count.max()) > limits.chunk:
        raise InputError(
            f"{int(count.max())} rows of one sequence in a step: the states' rings leave room for {limits.chunk}"
        )


def running(phase: str, ops: Sequence[Op], active: frozenset[str]) -> tuple[Op, ...]:
    """The ops of a phase that a step runs. InputError where it asks for what the phase has not, or for half of it."""
    unknown = sorted(active - {op.when for op in ops})
    if unknown:
        raise InputError(f"phase {phase!r} has no ops for {unknown}")
    chosen = tuple(op for op in ops if not op.when or op.when in active)
    there = {ROWS.name}
    for op in chosen:
        missing = [one.name for one in op.inputs if not isinstance(one, State) and one.name not in there]
        if missing:
            raise InputError(
                f"phase {phase!r} with {sorted(active)}: {op.label} reads {missing}, which no op of it writes"
            )
        there.add(op.output.name)
    return chosen


def check_group(
    limits: Bounds, tables: StepTables, ops: Sequence[Op], steps: int, stops_within: bool = False
) -> None:
    """InputError where the device can't go on from one step to the next by itself, `steps` in all.

    stops_within: the host has something to do within the step, which is then the only one.
    """
    if steps < 1:
        raise InputError(f"steps={steps}: expected at least 1")
    if steps == 1:
        return
    if stops_within:
        raise InputError(f"steps={steps}: what the host does meanwhile is done in one step")
    if not advances(ops):
        raise InputError(f"steps={steps}: no op of the step puts the sampled token into the next one's rows")
    if any(op.kernel.file == HOST for op in ops):
        raise InputError(f"steps={steps}: an op that the host computes needs steps=1")
    if len(tables.rows) != len(tables.slots) or not np.array_equal(tables.slots[:, 0], tables.rows[:, 2]):
        raise InputError(f"steps={steps}: expected one row a slot, in the order of the slots")
    last = int(tables.rows[:, 1].max()) + steps - 1
    if last >= limits.positions:
        raise InputError(f"steps={steps} end at position {last}: expected less than {limits.positions}")
