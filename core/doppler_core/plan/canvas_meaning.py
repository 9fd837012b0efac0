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
from doppler_core.plan.sampling_meaning import FARTHEST

Lines = npt.NDArray[np.int64]

HEAD = (
    4  # words of a tally before its blocks: the greatest so far before a tile and after it, two that are zero
)
MOST, SUM, SLOPE, BEST = range(4)  # words of a block


def lines(tables: Tables, capacity: int) -> Lines:
    """Each row's line in a state of so many positions a place."""
    return tables.places() * capacity + tables.rows[:, 1] % capacity


def settings(tables: Tables) -> list[CanvasStep]:
    """Of each slot."""
    assert tables.sampling is not None, "a denoising step has a sampling table"
    return [unpack(line) for line in tables.sampling]


def seat(params: Params, given: Operands, tables: Tables) -> Table:
    """The step's rows with the tokens of their canvas. canvas u32 [., 4] -> rows u32 [T, 4]."""
    out = tables.rows.copy()
    out[:, 0] = given.inputs[0][lines(tables, int(params["capacity"])), TOKEN]
    return out


def recall(params: Params, given: Operands, tables: Tables) -> Array:
    """Each row's line of a state. [., n] -> [T, n]."""
    found: Array = given.inputs[0][lines(tables, int(params["capacity"]))]
    return found


def noise(params: Params, given: Operands, tables: Tables) -> Table:
    """Each row's noise for this step (plan.canvas.step_noise). noise u32 [., 2] -> the state."""
    out: Table = given.inputs[0].copy()
    at, slots = lines(tables, int(params["capacity"])), tables.rows[:, 2]
    for slot, one in enumerate(settings(tables)):
        mine = slots == slot
        positions = tables.rows[mine, 1]
        out[at[mine]] = step_noise(one.seed, one.left, positions, int(params["vocabulary"]))
    return out


def tally(params: Params, given: Operands, tables: Tables) -> Table:
    """What a tile of logits says, put into the tally. logits [T, columns] of the tokens from `first` on -> the state.

    z = logit / temperature. Of each block of 256 tokens four words: the greatest z, the sum of weights exp(z - greatest),
    the sum of weight * (z - greatest), the token of the greatest, the first of equal ones; all but the token bits of an
    f32. Of the row: the greatest z of the tiles before this one and with it, in the first two words. A NaN makes the
    greatest NaN.
    """
    logits, out = given.inputs[0], given.inputs[1].copy()
    at, first = lines(tables, int(params["capacity"])), int(params["first"])
    z = logits / _temperatures(tables)
    for row, line in enumerate(at):
        blocks = _blocks(out[line])
        before = np.float32(-np.inf) if first == 0 else out[line, 1:2].view(np.float32)[0]
        for begin in range(0, z.shape[1], BLOCK):
            own = z[row, begin : begin + BLOCK]
            best = int(own.argmax())
            below = np.maximum(own - own[best], np.float32(FARTHEST))
            weights = np.exp(below)
            numbers = [own[best], weights.sum(dtype=np.float32), (weights * below).sum(dtype=np.float32)]
            block = blocks[(first + begin) // BLOCK]
            block[:BEST], block[BEST] = np.array(numbers, np.float32).view(np.uint32), first + begin + best
        after = max(before, z[row].max())
        out[line, :2] = np.array([before, after], np.float32).view(np.uint32)
    return out


def _temperatures(tables: Tables) -> Array:
    """Each row's, [T, 1]."""
    found = np.array([one.temperature for one in settings(tables)], np.float32)
    return found[tables.rows[:, 2], None]


def _blocks(line: Table) -> Table:
    """The blocks of a tally, [B, 4], a view."""
    blocks: Table = line[HEAD:].reshape(-1, 4)
    return blocks


def blend(params: Params, given: Operands, tables: Tables) -> Array:
    """The weighted rows of a tile's tokens, added to what the tiles before gave. -> soft.

    logits [T, columns] of the tokens from `first` on, tally, soft f32 [., hidden]; table: those tokens' rows, [columns,
    hidden]. Weights are exp(z - the greatest so far); what was there is made smaller as the greatest grows.
    """
    logits, tallies, out = given.inputs[0], given.inputs[1], given.inputs[2].copy()
    at = lines(tables, int(params["capacity"]))
    before, after = (tallies[at, word].view(np.float32)[:, None] for word in (0, 1))
    z = logits / _temperatures(tables)
    added = np.exp(np.maximum(z - after, np.float32(FARTHEST))) @ given.weights[0]
    if params["first"]:
        added = added + out[at] * np.exp(np.maximum(before - after, np.float32(FARTHEST)))
    out[at] = added
    return out


def pick(params: Params, given: Operands, tables: Tables) -> Table:
    """What each row's weights choose. u32 [T, 4]: the sample, the likeliest token, the bits of the entropy and of
    1 / the sum of exp(z - greatest).

    hidden [T, inner], tally, noise; head [V, inner]. Where among the tokens the noise falls is found by the block; the
    logits of that block are made again: hidden head^T, capped by `cap` (0 = not).
    """
    hidden, tallies, noises = given.inputs
    at, every = lines(tables, int(params["capacity"])), settings(tables)
    out = np.zeros((len(hidden), 4), np.uint32)
    for row, line in enumerate(at):
        one, blocks = every[tables.rows[row, 2]], _blocks(tallies[line])
        most, total, slope = (
            blocks[:, word].view(np.float32).astype(np.float64) for word in (MOST, SUM, SLOPE)
        )
        greatest = most.max()
        scale = np.exp(np.maximum(most - greatest, FARTHEST))
        weights = total * scale
        whole = weights.sum()
        entropy = np.log(whole) - (scale * (slope + total * (most - greatest))).sum() / whole
        likeliest = blocks[int(most.argmax()), BEST]
        sample = likeliest
        if not one.greedy:
            u = float(noises[line, :1].view(np.float32)[0])
            sample = _sampled(u * whole, weights, greatest, hidden[row], given.weights[0], params, one)
        out[row, :2] = sample, likeliest
        out[row, 2:] = np.array([max(entropy, 0.0), 1 / whole], np.float32).view(np.uint32)
    return out


def _sampled(
    target: float,
    weights: npt.NDArray[np.float64],
    greatest: float,
    hidden: Array,
    head: Array,
    params: Params,
    one: CanvasStep,
) -> int:
    """The first token at which the running sum of weights exceeds `target`; weights: of the blocks."""
    ends = np.cumsum(weights)
    block = min(int(np.searchsorted(ends, target, side="right")), len(weights) - 1)
    logits = head[block * BLOCK : (block + 1) * BLOCK] @ hidden
    if params["cap"]:
        logits = np.float32(params["cap"]) * np.tanh(logits / np.float32(params["cap"]))
    own = np.exp(np.maximum(logits.astype(np.float64) / one.temperature - greatest, FARTHEST)).cumsum()
    within = int(np.searchsorted(own, target - (ends[block] - weights[block]), side="right"))
    return block * BLOCK + min(within, len(own) - 1)


def soften(params: Params, given: Operands, tables: Tables) -> Array:
    """The soft embedding whole: times `scale` and 1 / the sum of the weights. picks, soft -> soft."""
    picks, out = given.inputs[0], given.inputs[1].copy()
    at = lines(tables, int(params["capacity"]))
    out[at] *= np.float32(params["scale"]) * picks[:, 3:].copy().view(np.float32)
    return out


def progress(params: Params, given: Operands, tables: Tables) -> Table:
    """How a canvas stands. picks, canvas as the step before left it -> u32 [S, 4]: the bits of the mean entropy, how many
    positions have another likeliest token than the step before, how many have a NaN for an entropy, 0."""
    picks, canvas = given.inputs
    at = lines(tables, int(params["capacity"]))
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
    at, every = lines(tables, int(params["capacity"])), settings(tables)
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
