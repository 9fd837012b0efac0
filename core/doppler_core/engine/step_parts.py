"""What a step holds of each slot, and the tables that say so (plan.op). It decides nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from doppler_core.device.executor import StepTables
from doppler_core.engine.slots import Run, Slot
from doppler_core.plan.sampling import Sampling, asked_for, pack

_UNWANTED = Sampling()  # of a slot whose next token nobody asks for


@dataclass(frozen=True)
class Part:
    """Some tokens of a run, from `position` on. samples: the token after them is wanted. known: they are not only the
    last one made, after which the device could go on by itself."""

    slot: Slot
    run: Run
    ids: Sequence[int]
    position: int
    samples: bool
    known: bool


def next_row(slot: Slot, run: Run) -> Part:
    """The last token that was made."""
    return Part(slot, run, run.ids[-1:], run.fed, samples=True, known=False)


def known_rows(slot: Slot, run: Run, count: int) -> Part:
    """The next `count` tokens of the prompt and what is known to follow it; the last one known asks for a token, unless
    none is wanted at all."""
    ids = run.ids[run.fed : run.fed + count]
    return Part(slot, run, ids, run.fed, samples=count == run.ahead and run.left > 0, known=True)


def deal(wanted: Sequence[int], rows: int) -> list[int]:
    """`rows` dealt out evenly; what one does not want is left to the others."""
    shares = [0] * len(wanted)
    by_want = sorted(range(len(wanted)), key=lambda index: wanted[index])
    for dealt, index in enumerate(by_want):
        shares[index] = min(wanted[index], rows // (len(wanted) - dealt))
        rows -= shares[index]
    return shares


def tables(parts: Sequence[Part], advances: bool) -> StepTables:
    """The step's tables, one slot for each part, and what the step asks for. `advances`: further steps follow on the
    device."""
    counts = np.array([len(part.ids) for part in parts])
    first = np.cumsum(counts) - counts
    rows = np.zeros((int(counts.sum()), 4), np.uint32)
    rows[:, 0] = np.concatenate([part.ids for part in parts])
    rows[:, 1] = np.concatenate([np.arange(len(part.ids)) + part.position for part in parts])
    rows[:, 2] = np.repeat(np.arange(len(parts)), counts)
    slots = np.zeros((len(parts), 4), np.uint32)
    slots[:, 0], slots[:, 1] = first, counts
    slots[:, 3] = [part.slot.place for part in parts]
    sampling = [part.run.job.choice.sampling if part.samples else _UNWANTED for part in parts]
    return StepTables(rows, slots, pack(sampling), _active(parts, advances))


def of_nothing(count: int, active: frozenset[str]) -> StepTables:
    """A step of `count` rows at place 0 whose result nobody wants."""
    rows = np.zeros((count, 4), np.uint32)
    rows[:, 1] = np.arange(count)
    return StepTables(rows, np.array([[0, count, 0, 0]], np.uint32), pack([_UNWANTED]), active)


def _active(parts: Sequence[Part], advances: bool) -> frozenset[str]:
    jobs = [part.run.job for part in parts if part.samples]
    if not jobs:
        return frozenset()
    asked = asked_for([job.choice.sampling for job in jobs], any(job.logprobs is not None for job in jobs))
    return asked | {"advance"} if advances else asked
