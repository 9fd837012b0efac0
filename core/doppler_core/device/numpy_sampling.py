"""Faster twins of the ops that choose tokens, for the NumPy executor; plan.sampling says what they choose.

Each works on all slots of a step, in one thread. Nothing of the size of the vocabulary is sorted, unless a thousand
tokens do not reach top_p, and noise is made for the tokens that can still win. An op that changes a state or the rows
changes `output`, which holds what was there.
"""

import functools
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from doppler_core.device.numpy_call import Call
from doppler_core.plan.operands import Array, Table
from doppler_core.plan.philox import Words, gumbel, token_words
from doppler_core.plan.sampling import (
    BIAS,
    BROKEN,
    MASK,
    NO_TOKEN,
    PENALTIES,
    TOP_LOGPROBS,
    Sampling,
    unpack,
)
from doppler_core.plan.sampling_meaning import (
    allowed_by,
    greatest,
    least_below,
    log_softmax,
    penalized,
    scaled,
    share_of,
    weights_of,
)

Ids = npt.NDArray[np.int64]

CHUNK = 1 << 15  # tokens whose noise is made at a time: their words stay in a core's second cache
FEW = 1024  # tokens that top_p is looked for among, before it is among all
_SLACK = 64  # words below the one whose noise would just do: more than the roundings on the way to it


def adjust(call: Call) -> None:
    """Logits copied, then changed only where a flag asks for it."""
    logits, counts, bias, mask = call.inputs
    np.copyto(call.output, logits)
    for out, place, line in zip(call.output, call.tables.slots[:, 3], _lines(call), strict=True):
        flags = int(line[9])
        if flags & PENALTIES:
            seen = np.flatnonzero(counts[place])
            out[seen] = penalized(out[seen], counts[place][seen], unpack(line))
        if flags & BIAS:
            np.add(out, bias[place], out=out, where=bias[place] > -np.inf)
            np.copyto(out, bias[place], where=bias[place] == -np.inf)
        if flags & MASK:
            np.copyto(out, np.float32(-np.inf), where=~allowed_by(mask[place], len(out)))


def sample(call: Call) -> None:
    """The greatest logit of each slot."""
    for out, logits in zip(call.output, call.inputs[0], strict=True):
        out[0] = greatest(logits)


def draw(call: Call) -> None:
    """A token for each slot."""
    positions = (call.tables.rows[:, 1] + np.uint32(1)).tolist()
    for out, logits, line, position in zip(call.output, call.inputs[0], _lines(call), positions, strict=True):
        out[0] = _drawn(logits, unpack(line), position)


def _drawn(logits: Array, one: Sampling, position: int) -> int:
    best = greatest(logits)
    if best in (NO_TOKEN, BROKEN) or one.temperature == 0:
        return best
    limited = 0 < one.top_k < len(logits)
    ids = strongest(logits, one.top_k) if limited else np.arange(len(logits))
    own = logits[ids] if limited else logits
    below = scaled(own, logits[best], one.temperature)
    near = below >= least_below(one.min_p)
    if one.top_p < 1:
        near &= _within(own, below, one)
    if 4 * np.count_nonzero(near) < len(near):  # few: noise for them alone
        ids, below, near = ids[near], below[near], near[near]
    noise = functools.partial(token_words, one.seed, position)
    return _noisiest(ids, np.where(near, below, np.float32(-np.inf)), best, noise)


def _within(logits: Array, below: Array, one: Sampling) -> npt.NDArray[np.bool_]:
    """Which of these tokens, so far below the best, are within top_p, [n]. The likeliest few are tried first."""
    wanted = share_of(weights_of(below).sum(), one.top_p)
    for count in (FEW, len(logits)):
        falling = np.sort(logits[strongest(logits, count)])[::-1]
        held = np.cumsum(weights_of(scaled(falling, falling[0], one.temperature)))
        if held[-1] >= wanted:
            break
    kept = 1 + int(np.searchsorted(held, wanted))
    return _down_to(logits, falling[kept - 1], kept)


def _noisiest(ids: Ids, below: Array, best: int, words_of: Callable[[Ids], Words]) -> int:
    """The token whose logit and noise are greatest together, of equal ones the lowest. Ids rise; -inf is never it."""
    winner, score = best, gumbel(words_of(np.array([best])))[0]
    for start in range(0, len(ids), CHUNK):
        chunk, distance = ids[start : start + CHUNK], below[start : start + CHUNK]
        words = words_of(chunk)
        # No token is above the best: only noise as great as the score so far can win.
        able = np.flatnonzero(words >= _least_word(score))
        scores = distance[able] + gumbel(words[able])
        if len(able) and (scores.max(), -chunk[able[scores.argmax()]]) > (score, -winner):
            winner, score = int(chunk[able[scores.argmax()]]), scores.max()
    return winner


def _least_word(noise: np.float32) -> int:
    """A word no greater than any whose noise is at least this."""
    return max(0, int(np.exp(-np.exp(-np.float64(noise))) * 2.0**32 * (1 - 2.0**-20)) - _SLACK)


def strongest(logits: Array, count: int) -> Ids:
    """The `count` tokens of greatest logit, of equal ones those of lower id, in rising order of ids; all if fewer."""
    if count >= len(logits):
        return np.arange(len(logits))
    least = np.partition(logits, len(logits) - count)[len(logits) - count]
    return np.flatnonzero(_down_to(logits, least, count))


def _down_to(values: Array, least: np.float32, count: int) -> npt.NDArray[np.bool_]:
    """Which of [n] values are the `count` greatest, the first of equal ones, the least of them being known."""
    chosen = values > least
    chosen[np.flatnonzero(values == least)[: count - np.count_nonzero(chosen)]] = True
    return chosen


def logprobs(call: Call) -> None:
    """Log-probabilities of the sampled token and the 20 greatest."""
    logits, sampled = call.inputs
    for out, own, token in zip(call.output, logits, sampled[:, 0], strict=True):
        out[:] = 0
        if token < len(own):
            top = strongest(own, TOP_LOGPROBS)
            top = top[np.argsort(-own[top], kind="stable")]
            log_probability = log_softmax(own)
            pairs = out[2:].reshape(-1, 2)
            pairs[:, 0], pairs[:, 1].view(np.float32)[:] = NO_TOKEN, -np.inf
            pairs[: len(top), 0] = top
            pairs[: len(top), 1] = log_probability[top].view(np.uint32)
            out[0] = log_probability[token].view(np.uint32)


def count(call: Call) -> None:
    """One more for each slot's token, in the state itself."""
    sampled = call.inputs[0][:, 0]
    there = sampled < call.output.shape[1]
    call.output[call.tables.slots[there, 3], sampled[there]] += np.uint32(1)


def advance(call: Call) -> None:
    """The next step's rows, in the table itself."""
    tokens = call.inputs[0][call.output[:, 2], 0]
    call.output[:, 0] = np.where(tokens < int(call.params["vocabulary"]), tokens, 0)
    call.output[:, 1] += np.uint32(1)


def _lines(call: Call) -> Table:
    assert call.tables.sampling is not None, "a step that samples has a sampling table"
    return call.tables.sampling


SAMPLING_OPS: Mapping[str, Callable[[Call], None]] = {
    "adjust": adjust,
    "sample": sample,
    "draw": draw,
    "logprobs": logprobs,
    "count": count,
    "advance": advance,
}
