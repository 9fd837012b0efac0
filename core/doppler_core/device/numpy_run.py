"""Runs bound ops on a crew of threads: row ops over ranges of rows, products and attention in parts."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy.typing as npt

from doppler_core.device.numpy_bound import Bound
from doppler_core.device.numpy_call import Call
from doppler_core.device.numpy_crew import Crew
from doppler_core.device.numpy_ops import PART_OPS, ROW_OPS, WHOLE_OPS, by_meaning
from doppler_core.device.numpy_sampling import SAMPLING_OPS
from doppler_core.plan.op import Op, State

ROW_BLOCK = 128  # rows of a range: what a few ops read and write of them fits a core's second cache
WHOLE = {**WHOLE_OPS, **SAMPLING_OPS}

Found = dict[str, npt.NDArray[Any]]


def run_bound(
    bound: Bound, crew: Crew | None, names: Collection[str], meanwhile: Callable[[], None] | None = None
) -> Found:
    """Run a step; copies of the values of `names`, as they were when their ops had run.

    crew: None = this thread alone, and BLAS's own. meanwhile: called before the first op that the step asks for.
    """
    found: Found = {}
    for each, calls in zip(bound.groups, bound.calls, strict=True):
        if meanwhile is not None and each.ops[0].when:
            meanwhile()
            meanwhile = None
        meaning = each.ops[0].meaning
        if each.by_rows:
            _by_rows(each.ops, calls)
        elif meaning in PART_OPS:
            _by_parts(meaning, calls, crew if bound.lane.alone else None)
        elif meaning in WHOLE:
            WHOLE[meaning](calls[0])
        else:
            by_meaning(meaning, calls[0])
        if not each.by_rows:
            _round(each.ops, calls)
        if not each.outputs.isdisjoint(names):
            found |= {name: bound.values[name].copy() for name in each.outputs.intersection(names)}
    return found


def _by_rows(ops: Sequence[Op], calls: Sequence[Call]) -> None:
    count = len(calls[0].output)
    twins = [ROW_OPS[op.meaning] for op in ops]
    for start in range(0, count, ROW_BLOCK):
        rows = slice(start, min(start + ROW_BLOCK, count))
        for twin, call in zip(twins, calls, strict=True):
            twin(call, rows.start, rows.stop)
            call.round(rows)


def _round(ops: Sequence[Op], calls: Sequence[Call]) -> None:
    """What the ops wrote; of a state an op changes some lines, which it rounds itself."""
    for op, call in zip(ops, calls, strict=True):
        if not isinstance(op.output, State):
            call.round()


def _by_parts(meaning: str, calls: Sequence[Call], crew: Crew | None) -> None:
    """The parts of all calls shared with a crew, or in this thread alone."""
    twin = PART_OPS[meaning]
    threads = 1 if crew is None else crew.count
    parts = [(call, part) for call in calls for part in twin.parts(call, threads)]
    if crew is not None:
        crew.run(lambda one: twin.run(*one), parts)
    else:
        for call, part in parts:
            twin.run(call, part)
