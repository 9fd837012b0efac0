"""What adjusts a slot's logits, put into the states of its place before its first token is chosen."""

from collections.abc import Mapping

import numpy as np

from doppler_core.device.executor import Executor
from doppler_core.engine.slots import Run, Slot
from doppler_core.plan.op import State
from doppler_core.plan.sampling import IN_PROMPT


def write_adjustments(executor: Executor, states: Mapping[str, State], slot: Slot, run: Run) -> None:
    """The tokens that occur in the prompt, where the job has penalties, and its bias, where it has one.

    Not before the step that chooses the first token: a step counts a token for each of its slots, wanted or not.
    """
    choice = run.job.choice
    if choice.sampling.penalized:
        counts = np.zeros((1, states["counts"].columns), np.uint32)
        counts[0, np.asarray(run.job.ids)] = IN_PROMPT
        executor.write_state("counts", slot.place, counts)
    if choice.sampling.biased:
        bias = np.zeros((1, states["bias"].columns), np.float32)
        bias[0, list(choice.bias)] = list(choice.bias.values())
        executor.write_state("bias", slot.place, bias)
