"""How a slot's next token is chosen: its settings, and their line of the step's sampling table.

A token is chosen from the logits of a slot in this order; plan.sampling_meaning says the same in NumPy:
    repetition   a token of the prompt or the reply: a logit above 0 divided by it, any other multiplied by it
    presence     a token of the reply: taken off once; frequency: taken off for each time it came
    bias         added; the mask, and a bias of -inf, forbid a token
    temperature  0 = the token of the greatest logit, the lowest id of equal ones, and no more; else logits are divided
                 by it, and a token weighs exp(logit - the greatest)
    top_k        the k tokens of greatest logit, of equal ones those of lower id: always k
    top_p        of those the fewest, in the same order, that hold this share of the weight; at least one
    min_p        of those the ones whose weight is at least this times the best one's, as ln min_p has it
    draw         the greatest of logit + Gumbel noise (plan.philox), which draws by weight; noise is of the seed, the
                 token's position and the token alone, so that neither batch nor filters nor device change it
Weights are whole numbers, exp in f32 times 2^31 rounded down, so that sums of them are exact in any order. Executors
differ where exp rounds differently at the very border of top_p or min_p, and that matters only if the token on the
border is the one drawn.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from doppler_core.plan.op import SAMPLING

# In place of a token: no token is allowed; a logit is NaN.
NO_TOKEN = 0xFFFFFFFF
BROKEN = 0xFFFFFFFE

PENALTIES, BIAS, MASK = 1, 2, 4  # flags: what is read of the states
IN_PROMPT = 0x80000000  # of a count: the token occurs in the prompt; the rest: how often it was generated
TOP_LOGPROBS = 20  # tokens whose log-probabilities a step can give beside the chosen one's

_FORM = struct.Struct("<fI5fQI24x")
_SMALLEST = float(np.finfo(np.float32).tiny)  # devices take smaller numbers for 0


@dataclass(frozen=True)
class Sampling:
    """One slot's settings, checked and with every default filled in. The defaults choose the greatest logit.

    top_k: 0 = no limit. top_p: 1 = no limit, 0 = the best token. seed: 64 bits. biased, masked: whether the slot's
    place holds a bias, a mask.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    presence: float = 0.0
    frequency: float = 0.0
    repetition: float = 1.0
    seed: int = 0
    biased: bool = False
    masked: bool = False

    @property
    def penalized(self) -> bool:
        """Whether what came before matters: the slot's counts are read, and have to be kept."""
        return (self.presence, self.frequency, self.repetition) != (0.0, 0.0, 1.0)

    @property
    def greedy(self) -> bool:
        """Whether the greatest of the model's own logits is all that is asked for."""
        return self.temperature < _SMALLEST and not (self.penalized or self.biased or self.masked)


def pack(settings: Iterable[Sampling]) -> npt.NDArray[np.uint32]:
    """The sampling table, u32 [S, 16]. Words, f = the bits of an f32:

    0 temperature f, 1 top_k, 2 top_p f, 3 min_p f, 4 presence f, 5 frequency f, 6 repetition f, 7 and 8 seed (low word
    first), 9 flags, 10 to 15 zero. A temperature that f32 has no normal number for is 0.
    """
    lines = b"".join(
        _FORM.pack(
            one.temperature if one.temperature >= _SMALLEST else 0.0,
            min(one.top_k, 0xFFFFFFFF),
            one.top_p,
            one.min_p,
            one.presence,
            one.frequency,
            one.repetition,
            one.seed,
            PENALTIES * one.penalized | BIAS * one.biased | MASK * one.masked,
        )
        for one in settings
    )
    return np.frombuffer(lines, np.uint32).reshape(-1, SAMPLING.columns)


def unpack(line: npt.NDArray[np.uint32]) -> Sampling:
    """The settings of a line of the table, u32 [16]: what a device reads, so numbers are as f32 has them."""
    temperature, top_k, top_p, min_p, presence, frequency, repetition, seed, flags = _FORM.unpack(
        line.tobytes()
    )
    return Sampling(
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        presence=presence,
        frequency=frequency,
        repetition=repetition,
        seed=seed,
        biased=bool(flags & BIAS),
        masked=bool(flags & MASK),
    )


def asked_for(settings: Iterable[Sampling], logprobs: bool = False) -> frozenset[str]:
    """What a step asks for (`when` of ops) so that every slot's next token is chosen as its settings say.

    One slot that needs more than the greatest logit makes the step draw; the others' tokens stay the same.
    """
    slots = tuple(settings)
    asked = {"greedy" if all(one.greedy for one in slots) else "draw"}
    if any(one.penalized for one in slots):
        asked.add("count")
    if logprobs:
        asked.add("logprobs")
    return frozenset(asked)
