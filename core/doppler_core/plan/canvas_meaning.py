"""What the ops of a denoising step mean, in plain NumPy: the oracle, like plan.meaning, of plan.canvas's words.

T rows are the canvases of the step's slots; states are whole, and a row's line in them is the one of its position. The
vocabulary goes by in tiles of tokens: no op holds the logits of all.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from doppler_core.plan.canvas import (
    ACCEPTED,
    BLOCK,
    ENTROPY,
    LIKELIEST,
    TOKEN,
    CanvasStep,
    step_noise,
    unpack,
)
from doppler_core.plan.operands import Array, Operands, Params, Table, Tables
from doppler_core.plan.sampling_meaning import scaled

HEAD = 4  # words of a tally before its blocks: the greatest logit before a tile and with it, two that nobody reads
MOST, SUM, SLOPE, BEST = range(4)  # words of a block


def settings(tables: Tables) -> list[CanvasStep]:
    """Of each slot."""
    assert tables.sampling is not None, "a denoising step has a sampling table"
    return [unpack(line) for line in tables.sampling]


def seat(params: Params, given: Operands, tables: Tables) -> Table:
    """The step's rows with the tokens of their canvas. canvas u32 [., 4] -> rows u32 [T, 4]."""
    out = tables.rows.copy()
    out[:, 0] = given.inputs[0][tables.lines(int(params["capacity"])), TOKEN]
    return out


def recall(params: Params, given: Operands, tables: Tables) -> Array:
    """Each row's line of a state. [., n] -> [T, n]."""
    found: Array = given.inputs[0][tables.lines(int(params["capacity"]))]
    return found


def noise(params: Params, given: Operands, tables: Tables) -> Table:
    """Each row's noise for this step (plan.canvas.step_noise). noise u32 [., 2] -> the state."""
    out: Table = given.inputs[0].copy()
    at, slots = tables.lines(int(params["capacity"])), tables.rows[:, 2]
    for slot, one in enumerate(settings(tables)):
        mine = slots == slot
        positions = tables.rows[mine, 1]
        out[at[mine]] = step_noise(one.seed, one.left, positions, int(params["vocabulary"]))
    return out


def tally(params: Params, given: Operands, tables: Tables) -> Table:
    """What a tile of logits says, put into the tally. logits [T, columns] of the tokens from `first` on -> the state.

    Of each block of 256 tokens four words: the greatest logit, the sum of the weights exp((logit - greatest) /
    temperature), the sum of weight * (logit - greatest) / temperature, the token of the greatest, the first of equal
    ones; all but the token bits of an f32. Of the row: the greatest logit before this tile and with it, in the first two
    words. A NaN is the greatest. `first` is a multiple of 256.
    """
    logits, out = given.inputs[0], given.inputs[1].copy()
    first, temperatures = int(params["first"]), temperatures_of(tables)
    for row, line in enumerate(tables.lines(int(params["capacity"]))):
        blocks = _blocks(out[line])
        for begin in range(0, logits.shape[1], BLOCK):
            own = logits[row, begin : begin + BLOCK]
            best = int(own.argmax())  # of the first NaN, where there is one
            below = scaled(own, own[best], temperatures[row])
            weights = np.exp(below)
            block = blocks[(first + begin) // BLOCK]
            block[:BEST] = _bits(own[best], np.sum(weights), np.sum(weights * below))
            block[BEST] = first + begin + best
        before = out[line, 1:2].view(np.float32)[0] if first else np.float32(-np.inf)
        out[line, :2] = _bits(before, np.maximum(before, logits[row].max()))
    return out


def temperatures_of(tables: Tables) -> Array:
    """Each row's, [T]."""
    found = np.array([one.temperature for one in settings(tables)], np.float32)
    return found[tables.rows[:, 2]]


def _blocks(line: Table) -> Table:
    """The blocks of a tally, [B, 4], a view."""
    blocks: Table = line[HEAD:].reshape(-1, 4)
    return blocks


def _bits(*numbers: np.floating) -> Table:
    return np.array(numbers, np.float32).view(np.uint32)


def blend(params: Params, given: Operands, tables: Tables) -> Array:
    """The weighted rows of a tile's tokens, added to what the tiles before gave. -> soft.

    logits [T, columns] of the tokens from `first` on, tally, soft f32 [., hidden]; table: those tokens' rows, [columns,
    hidden]. A token weighs exp((logit - the greatest so far) / temperature); what was there is made smaller as the
    greatest grows.
    """
    logits, tallies, out = given.inputs[0], given.inputs[1], given.inputs[2].copy()
    temperatures = temperatures_of(tables)
    for row, line in enumerate(tables.lines(int(params["capacity"]))):
        before, after = tallies[line, :2].view(np.float32)
        added = np.exp(scaled(logits[row], after, temperatures[row])) @ given.weights[0]
        kept = (
            out[line] * np.exp(scaled(before, after, temperatures[row])) if params["first"] else np.float32(0)
        )
        out[line] = kept + added
    return out


def pick(params: Params, given: Operands, tables: Tables) -> Table:
    """What each row's weights choose. u32 [T, 4]: the sample, the likeliest token, the bits of the entropy and of
    1 / the sum of exp((logit - greatest) / temperature).

    hidden [T, inner], tally, noise; head [V, inner]. Where among the tokens the noise falls is found by the block; the
    logits of that block are made again: hidden head^T, capped by `cap` (0 = not), and weighed among themselves, as
    rounding may have made them others. A NaN among the logits is the likeliest token and the sample, and both numbers
    are NaN.
    """
    hidden, tallies, noises = given.inputs
    every = settings(tables)
    out = np.zeros((len(hidden), 4), np.uint32)
    for row, line in enumerate(tables.lines(int(params["capacity"]))):
        one, blocks = every[tables.rows[row, 2]], _blocks(tallies[line])
        most, total, slope = (blocks[:, word].view(np.float32) for word in (MOST, SUM, SLOPE))
        best = int(most.argmax())
        below = scaled(most, most[best], one.temperature).astype(np.float64)
        weights = total.astype(np.float64) * np.exp(below)
        whole = weights.sum()
        entropy = np.log(whole) - (np.exp(below) * (slope + total * below)).sum() / whole
        sample = likeliest = blocks[best, BEST]
        if not (one.greedy or np.isnan(most[best])):
            u = float(noises[line, :1].view(np.float32)[0])
            block, within = _beyond(weights, u)
            head = given.weights[0][block * BLOCK : (block + 1) * BLOCK]
            logits = _capped(head @ hidden[row], params)
            own = scaled(logits, logits.max(), one.temperature)
            sample = block * BLOCK + _beyond(np.exp(own.astype(np.float64)), within)[0]
        out[row, :2] = sample, likeliest
        out[row, 2:] = _bits(np.maximum(entropy, 0), 1 / whole)
    return out


def _beyond(weights: npt.NDArray[np.float64], share: float) -> tuple[int, float]:
    """The first index at which the running sum of weights exceeds that share of their sum, and what share of its own weight
    lies before.

    Rounding may bring the share below 0 or up to 1: it is then the first index, or the last, that has a weight.
    """
    ends = np.cumsum(weights)
    amount = min(max(share, 0.0) * ends[-1], np.nextafter(ends[-1], 0))
    found = int(np.searchsorted(ends, amount, side="right"))
    return found, (amount - (ends[found] - weights[found])) / weights[found]


def _capped(logits: Array, params: Params) -> Array:
    cap = np.float32(params["cap"])
    return cap * np.tanh(logits / cap) if cap else logits


def soften(params: Params, given: Operands, tables: Tables) -> Array:
    """The soft embedding whole: times `scale` and 1 / the sum of the weights. picks, soft -> soft."""
    picks, out = given.inputs[0], given.inputs[1].copy()
    at = tables.lines(int(params["capacity"]))
    out[at] *= np.float32(params["scale"]) * picks[:, 3:].copy().view(np.float32)
    return out


def progress(params: Params, given: Operands, tables: Tables) -> Table:
    """How a canvas stands. picks, canvas as the step before left it -> u32 [S, 4]: the bits of the mean entropy, how many
    positions have another likeliest token than the step before, how many have a NaN for an entropy, 0."""
    picks, canvas = given.inputs
    at = tables.lines(int(params["capacity"]))
    out = np.zeros((len(tables.slots), 4), np.uint32)
    for slot, mine in _slots(tables):
        entropies = picks[mine, 2].view(np.float32)
        out[slot, :1] = entropies.mean(dtype=np.float32, keepdims=True).view(np.uint32)
        out[slot, 1] = (picks[mine, 1] != canvas[at[mine], LIKELIEST]).sum()
        out[slot, 2] = np.isnan(entropies).sum()
    return out


def accept(params: Params, given: Operands, tables: Tables) -> Table:
    """The canvas of the next step. picks, noise, canvas -> canvas."""
    picks, noises, out = given.inputs[0], given.inputs[1], given.inputs[2].copy()
    at, every = tables.lines(int(params["capacity"])), settings(tables)
    for slot, mine in _slots(tables):
        entropies = picks[mine, 2].view(np.float32).astype(np.float64)
        order = np.argsort(entropies, kind="stable")
        before = np.empty(len(order))
        before[order] = np.concatenate([[0.0], np.cumsum(entropies[order])[:-1]])
        accepted = before <= every[slot].bound
        own = out[at[mine]]
        own[:, TOKEN] = np.where(accepted, picks[mine, 0], noises[at[mine], 1])
        own[:, ACCEPTED], own[:, LIKELIEST], own[:, ENTROPY] = accepted, picks[mine, 1], picks[mine, 2]
        out[at[mine]] = own
    return out


def _slots(tables: Tables) -> Iterator[tuple[int, slice]]:
    """Each slot's rows."""
    for slot, (first, count, *_) in enumerate(tables.slots.tolist()):
        yield slot, slice(first, first + count)
