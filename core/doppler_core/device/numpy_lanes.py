"""A step as lanes: its sequences dealt out to threads, each of which runs the whole phase on its own.

Sequences do not see each other, so that lanes share nothing but the weights: no thread waits for another before the
end, and what one op leaves in a core's cache the next finds there. It knows no ops and no buffers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from doppler_core.plan.operands import Array, Tables

LEAST_ROWS = 64  # of a lane: every thread reads all the weights, which must be worth it

# The largest lane against an even share. Beyond this the others idle for longer than is lost when BLAS shares out
# each product and what lies between products runs in one thread (9.0 s against 6.7 s, 64 documents on two cores).
UNEVEN = 1.3

Indices = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Lane:
    """Some of a step's sequences, as a step of their own.

    rows, slots: which of the step's they are, in order. first: rows of the step in the lanes before this one.
    alone: there is no other lane.
    """

    tables: Tables
    rows: Indices
    slots: Indices
    first: int
    alone: bool


def lanes(tables: Tables, threads: int) -> list[Lane]:
    """A lane for each thread; one of everything where the sequences are too few for that, or too uneven."""
    lengths = np.bincount(tables.rows[:, 2], minlength=len(tables.slots))
    lane_of, loads = _deal(lengths, threads)
    count = len(tables.rows)
    if threads == 1 or min(loads) < LEAST_ROWS or max(loads) * threads > UNEVEN * count:
        return [whole(tables)]
    return [_lane(tables, lane_of == number, sum(loads[:number])) for number in range(threads)]


def whole(tables: Tables) -> Lane:
    """The one lane of everything, with tables of its own."""
    sampling = None if tables.sampling is None else tables.sampling.copy()
    own = Tables(tables.rows.copy(), tables.slots.copy(), sampling)
    return Lane(own, np.arange(len(own.rows)), np.arange(len(own.slots)), 0, True)


def join(parts: Sequence[Array], places: Sequence[Indices]) -> Array:
    """One value out of what each lane made of it: line i of a part goes to line places[i]."""
    whole = np.empty((sum(map(len, parts)), *parts[0].shape[1:]), parts[0].dtype)
    for part, place in zip(parts, places, strict=True):
        whole[place] = part
    return whole


def _deal(lengths: Indices, count: int) -> tuple[Indices, list[int]]:
    """The lane of each sequence, and the rows of each lane: the longest first, each to the lane that has least."""
    lane_of, loads = np.zeros(len(lengths), np.intp), [0] * count
    for slot in np.argsort(-lengths, kind="stable"):
        lane_of[slot] = loads.index(min(loads))
        loads[lane_of[slot]] += int(lengths[slot])
    return lane_of, loads


def _lane(tables: Tables, mine: npt.NDArray[np.bool_], first: int) -> Lane:
    taken = mine[tables.rows[:, 2]]
    rows, slots = tables.rows[taken], tables.slots[mine]
    # Counted within the lane: the slot of a row, and the first row of a slot.
    rows[:, 2] = (np.cumsum(mine) - 1)[rows[:, 2]]
    slots[:, 0] = (np.cumsum(taken) - 1)[slots[:, 0]]
    sampling = None if tables.sampling is None else tables.sampling[mine]
    return Lane(Tables(rows, slots, sampling), np.flatnonzero(taken), np.flatnonzero(mine), first, False)
