"""What the ops that choose tokens mean, in plain NumPy: the oracle, like plan.meaning, of plan.sampling's words.

S slots, V tokens. Logits are f32 [S, V], what is sampled u32 [S, 1]; states are whole, a slot's line is its place.
"""

import numpy as np
import numpy.typing as npt

from doppler_core.plan.operands import Array, Operands, Params, Table, Tables
from doppler_core.plan.philox import gumbel, token_words
from doppler_core.plan.sampling import (
    BIAS,
    BROKEN,
    IN_PROMPT,
    MASK,
    NO_TOKEN,
    PENALTIES,
    TOP_LOGPROBS,
    Sampling,
    unpack,
)

Ids = npt.NDArray[np.int64]

FARTHEST = -100.0  # exp of less is 0, and some devices make a NaN of exp(-inf)
WHOLE = 2.0**31  # the weight of the best token


def adjust(params: Params, given: Operands, tables: Tables) -> Array:
    """Logits with what the slot's flags switch on: penalties, bias, mask.

    logits [S, V]; of the places: counts u32 [places, V], bias f32 [places, V], mask u32 [places, V / 32 rounded up],
    bit id % 32 of word id / 32 being 1 where a token is allowed -> [S, V].
    """
    logits, counts, bias, mask = given.inputs
    out: Array = logits.copy()
    for slot, (place, line) in enumerate(zip(tables.slots[:, 3], _sampling(tables), strict=True)):
        one, flags = unpack(line), int(line[9])
        if flags & PENALTIES:
            out[slot] = penalized(out[slot], counts[place], one)
        if flags & BIAS:
            with np.errstate(invalid="ignore"):  # of an infinite logit
                out[slot] = np.where(bias[place] == -np.inf, bias[place], out[slot] + bias[place])
        if flags & MASK:
            out[slot] = np.where(allowed_by(mask[place], out.shape[1]), out[slot], np.float32(-np.inf))
    return out


def penalized(logits: Array, counts: Table, one: Sampling) -> Array:
    """Logits [n] of tokens with these counts [n], after the three penalties."""
    repetition, presence = np.float32(one.repetition), np.float32(one.presence)
    times = counts & ~np.uint32(IN_PROMPT)
    with np.errstate(over="ignore", invalid="ignore"):
        repeated = np.where(logits > 0, logits / repetition, logits * repetition)
        out: Array = np.where(counts > 0, repeated, logits) - np.where(times > 0, presence, np.float32(0))
        return out - np.float32(one.frequency) * times.astype(np.float32)


def allowed_by(mask: Table, tokens: int) -> npt.NDArray[np.bool_]:
    """Which of so many tokens the words of a mask allow, [tokens]."""
    return np.unpackbits(mask.astype("<u4").view(np.uint8), bitorder="little", count=tokens).view(np.bool_)


def sample(params: Params, given: Operands, tables: Tables) -> Table:
    """The id of the greatest logit, the lowest of equal ones. [S, V] -> u32 [S, 1].

    NO_TOKEN where all are -inf, BROKEN where one is NaN.
    """
    return np.array([[greatest(logits)] for logits in given.inputs[0]], np.uint32)


def greatest(logits: Array) -> int:
    """The token of `sample` for one slot's logits [V]."""
    best = int(logits.argmax())  # of the first NaN, where there is one
    if np.isnan(logits[best]):
        return BROKEN
    return NO_TOKEN if logits[best] == -np.inf else best


def draw(params: Params, given: Operands, tables: Tables) -> Table:
    """A token for each slot, chosen as plan.sampling says, from adjusted logits [S, V] -> u32 [S, 1].

    NO_TOKEN and BROKEN as in `sample`.
    """
    positions = tables.rows[:, 1] + np.uint32(1)
    lines = zip(given.inputs[0], _sampling(tables), positions.tolist(), strict=True)
    return np.array([[_drawn(logits, unpack(line), position)] for logits, line, position in lines], np.uint32)


def _drawn(logits: Array, one: Sampling, position: int) -> int:
    best = greatest(logits)
    if best in (NO_TOKEN, BROKEN) or one.temperature == 0:
        return best
    ids, below = survivors(logits, one)
    scores = below + gumbel(token_words(one.seed, position, ids))
    return int(ids[scores == scores.max()].min())


def survivors(logits: Array, one: Sampling) -> tuple[Ids, Array]:
    """The tokens that may be drawn at a temperature above 0, the likeliest first, and how far each is below the best.

    Logits are adjusted, [V], none is NaN, some are above -inf.
    """
    ids = _ranked(logits)
    ids = ids[logits[ids] > -np.inf]
    if one.top_k:
        ids = ids[: one.top_k]
    below = scaled(logits[ids], logits[ids[0]], one.temperature)
    if one.top_p < 1:
        held = np.cumsum(weights_of(below))
        ids = ids[: 1 + int(np.searchsorted(held, share_of(held[-1], one.top_p)))]
    heavy = below[: len(ids)] >= least_below(one.min_p)
    return ids[heavy], below[: len(ids)][heavy]


def _ranked(logits: Array) -> Ids:
    """Ids by falling logits, of equal ones the lower first."""
    return np.argsort(-logits, kind="stable")


def under(logits: Array, best: Array | np.float32) -> Array:
    """logit - best; 0 for the best, infinite ones too."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(logits == best, np.float32(0), logits - best)


def scaled(logits: Array, best: Array | np.float32, temperature: Array | float) -> Array:
    """(logit - best) / temperature, at least -100."""
    with np.errstate(over="ignore"):
        below: Array = np.divide(under(logits, best), temperature, dtype=np.float32)
    return np.maximum(below, np.float32(FARTHEST))


def weights_of(below: Array) -> npt.NDArray[np.uint64]:
    """Weights of tokens so far below the best, as whole numbers: 2^31 for the best."""
    return (np.exp(below) * np.float32(WHOLE)).astype(np.uint64)


def share_of(total: np.uint64, top_p: float) -> np.uint64:
    """The weight that the tokens within top_p hold at least."""
    return np.uint64(max(1, int(total) * int(top_p * 2.0**32) >> 32))


def least_below(min_p: float) -> np.float32:
    """How far below the best a token within min_p may be: where exp is min_p."""
    return np.log(np.float32(min_p)) if min_p > 0 else np.float32(-np.inf)


def logprobs(params: Params, given: Operands, tables: Tables) -> Table:
    """Log-probabilities of softmax(logits), without temperature or filters. logits [S, V], sampled -> u32 [S, 42].

    A line: the sampled token's (bits of an f32), 0, then 20 pairs of a token and its own, the greatest first, of equal
    ones the lower id first. Past the vocabulary NO_TOKEN and -inf; all 0 where no token was sampled.
    """
    logits, sampled = given.inputs
    out = np.zeros((len(logits), 2 + 2 * TOP_LOGPROBS), np.uint32)
    for line, own, token in zip(out, logits, sampled[:, 0], strict=True):
        if token < len(own):
            top = _ranked(own)[:TOP_LOGPROBS]
            log_probability = log_softmax(own)
            pairs = line[2:].reshape(-1, 2)
            pairs[:] = NO_TOKEN, _bits(np.float32(-np.inf))
            pairs[: len(top), 0], pairs[: len(top), 1] = top, _bits(log_probability[top])
            line[0] = _bits(log_probability[token])
    return out


def log_softmax(logits: Array) -> Array:
    """log(exp(l) / sum of exp) of [V]. Of an infinite best, the finite ones are impossible."""
    below = under(logits, logits.max())
    out: Array = below - np.log(np.sum(np.exp(below), dtype=np.float32))
    return out


def _bits(values: Array | np.float32) -> Table:
    return np.asarray(values, np.float32).view(np.uint32)


def count(params: Params, given: Operands, tables: Tables) -> Table:
    """One more for each slot's sampled token. sampled, counts u32 [places, V] -> counts. No token counts nothing."""
    sampled, counts = given.inputs
    out: Table = counts.copy()
    there = sampled[:, 0] < out.shape[1]
    out[tables.slots[there, 3], sampled[there, 0]] += np.uint32(1)
    return out


def advance(params: Params, given: Operands, tables: Tables) -> Table:
    """The next step's `rows`: the token sampled for each row's slot, one position on. u32 [T, 4], one row a slot.

    In place of no token it is token 0, so that a step that nobody will look at stays within its tables.
    """
    out = tables.rows.copy()
    tokens = given.inputs[0][out[:, 2], 0]
    out[:, 0] = np.where(tokens < int(params["vocabulary"]), tokens, 0)
    out[:, 1] += 1
    return out


def _sampling(tables: Tables) -> Table:
    assert tables.sampling is not None, "a step that samples has a sampling table"
    return tables.sampling
