"""What adjusts a slot's logits, put into the states of its place before a token is chosen."""

from collections.abc import Iterable, Mapping

import numpy as np

from doppler_core.device.executor import Executor
from doppler_core.engine.slots import Run, Slot
from doppler_core.plan.op import State
from doppler_core.plan.sampling import IN_PROMPT


def write_adjustments(executor: Executor, states: Mapping[str, State], slot: Slot, run: Run) -> None:
    """What the tokens of a run are chosen by, where that is not there yet: the tokens that occur in the prompt, where
    the job has penalties, and its bias.

    Not before the step that samples its first token: a step counts a token for each of its slots, wanted or not.
    """
    if run.adjusted:
        return
    run.adjusted = True
    choice = run.job.choice
    if choice.sampling.penalized:
        counts = np.zeros((1, states["counts"].columns), np.uint32)
        counts[0, np.asarray(run.job.ids)] = IN_PROMPT
        executor.write_state("counts", slot.place, counts)
    if choice.sampling.biased:
        bias = np.zeros((1, states["bias"].columns), np.float32)
        bias[0, list(choice.bias)] = list(choice.bias.values())
        executor.write_state("bias", slot.place, bias)


def write_masks(executor: Executor, runs: Iterable[tuple[Slot, Run]]) -> None:
    """What may come next in each of the runs that have a mask. A mask that breaks fails its own job."""
    for slot, run in runs:
        try:
            allowed = run.job.allowed()
        except BaseException as error:  # noqa: BLE001 - the requester's own code: a panic is no Exception
            run.job.fail(error)
        else:
            executor.write_state("mask", slot.place, allowed.reshape(1, -1))
