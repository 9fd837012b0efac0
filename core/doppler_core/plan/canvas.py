"""One denoising step of a canvas: its settings, their line of the step's sampling table, and what lies in its states.

A canvas is C tokens of a sequence that are made together (DiffusionGemma). A step, of which `left` are left, this one
included, takes the canvas as it stands and makes of its logits l, [C, V]:
    weights    p = softmax(l / temperature)
    sample     the first token at which the running sum of p exceeds u, u of the position's noise; a greedy step takes
               the likeliest token
    entropy    of p, in nats
    accept     positions by rising entropy, as long as the entropies before theirs sum to at most `bound`: always the
               surest. An accepted position takes its sample, any other a random token; nothing stays for good
    soft       sum of p E * sqrt(hidden), which the next step's rows are mixed with
The answer is the likeliest token of each position in the last step. Formulas: DiffusionGemma as published
(transformers' generation_diffusion_gemma).

States, one line a position of a place's canvas, at place * C + position % C:
    canvas   u32 [., 4]      the token, whether it was accepted, the likeliest token, the bits of the entropy
    noise    u32 [., 2]      bits of u, an f32 above 0 and below 1, and a random token
    tally    u32 [., 4 + 4B] what is known of the weights, by the block of 256 tokens (plan.canvas_meaning.tally)
    soft     f32 [., hidden]
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from doppler_core.plan.op import SAMPLING
from doppler_core.plan.philox import key_of, philox

BLOCK = 256  # tokens whose weights are tallied together
TOKEN, ACCEPTED, LIKELIEST, ENTROPY = range(4)  # words of a line of `canvas`
NOTHING = 0xFFFFFFFF  # in place of the likeliest token before the first step
GREEDY = 8  # flag, beside those of plan.sampling

_STEP, _BEGIN = 1, 2  # third words of the counters of noise: of a step, of the first canvas


@dataclass(frozen=True)
class CanvasStep:
    """One slot's settings. temperature above 0; seed: 64 bits; left: steps; bound: nats."""

    temperature: float
    seed: int
    left: int
    bound: float
    greedy: bool = False


def pack(settings: Iterable[CanvasStep]) -> npt.NDArray[np.uint32]:
    """The sampling table, u32 [S, 16]. Words, f = the bits of an f32:

    0 temperature f, 7 and 8 seed (low word first), 9 flags, 10 steps left, 11 bound f; the others zero.
    """
    lines = [_line(one) for one in settings]
    return np.array(lines, np.uint32).reshape(-1, SAMPLING.columns)


def _line(one: CanvasStep) -> npt.NDArray[np.uint32]:
    line = np.zeros(SAMPLING.columns, np.uint32)
    line[0], line[11] = (np.float32(value).view(np.uint32) for value in (one.temperature, one.bound))
    line[7], line[8] = key_of(one.seed)
    line[9], line[10] = GREEDY * one.greedy, one.left
    return line


def unpack(line: npt.NDArray[np.uint32]) -> CanvasStep:
    """The settings of a line of the table, u32 [16]: what a device reads, so numbers are as f32 has them."""
    temperature, bound = (float(line[at : at + 1].view(np.float32)[0]) for at in (0, 11))
    seed = int(line[7]) | int(line[8]) << 32
    return CanvasStep(temperature, seed, int(line[10]), bound, bool(line[9] & GREEDY))


def step_noise(
    seed: int, left: int, positions: npt.NDArray[np.integer], vocabulary: int
) -> npt.NDArray[np.uint32]:
    """Noise of a step for positions of a sequence, [n] -> u32 [n, 2]: bits of u, and a random token.

    Words 0 and 1 of the counter (position, left, 1, 0): u is (word / 2^9, rounded down, + 1/2) / 2^23, so that chance
    never draws a token for being the first one. It depends on nothing else: not on the batch, nor on the device.
    """
    words = _words(seed, positions, left, _STEP)
    u = ((words[:, 0] >> np.uint32(9)).astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-23)
    return np.stack([u.view(np.uint32), _token(words[:, 1], vocabulary)], -1)


def first_tokens(seed: int, positions: npt.NDArray[np.integer], vocabulary: int) -> npt.NDArray[np.uint32]:
    """What a canvas holds before its first step, u32 [n]: random tokens, word 0 of the counter (position, 0, 2, 0)."""
    return _token(_words(seed, positions, 0, _BEGIN)[:, 0], vocabulary)


def _words(seed: int, positions: npt.NDArray[np.integer], left: int, purpose: int) -> npt.NDArray[np.uint32]:
    counters = np.zeros((len(positions), 4), np.uint32)
    counters[:, 0], counters[:, 1], counters[:, 2] = positions, left, purpose
    return philox(counters, key_of(seed))


def _token(words: npt.NDArray[np.uint32], vocabulary: int) -> npt.NDArray[np.uint32]:
    """A token for each word: the high half of word * vocabulary."""
    return (words.astype(np.uint64) * np.uint64(vocabulary) >> np.uint64(32)).astype(np.uint32)
