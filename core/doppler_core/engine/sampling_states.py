"""What adjusts a slot's logits, put into the states of its place before a token is chosen."""

from collections.abc import Mapping

import numpy as np

from doppler_core.device.executor import Executor
from doppler_core.engine.slots import Run, Slot
from doppler_core.plan.op import State
from doppler_core.plan.sampling import IN_PROMPT


def write_adjustments(executor: Executor, states: Mapping[str, State], slot: Slot, run: Run) -> None:
    """What the next token of a run is chosen by: its mask, and before its first token the tokens that occur in the
    prompt, where the job has penalties, and its bias.

    Not before that step: a step counts a token for each of its slots, wanted or not.
    """
    choice, allowed = run.job.choice, run.job.allowed
    if allowed is not None:
        executor.write_state("mask", slot.place, allowed.reshape(1, -1))
    if run.made:
        return
    if choice.sampling.penalized:
        counts = np.zeros((1, states["counts"].columns), np.uint32)
        counts[0, np.asarray(run.job.ids)] = IN_PROMPT
        executor.write_state("counts", slot.place, counts)
    if choice.sampling.biased:
        bias = np.zeros((1, states["bias"].columns), np.float32)
        bias[0, list(choice.bias)] = list(choice.bias.values())
        executor.write_state("bias", slot.place, bias)
