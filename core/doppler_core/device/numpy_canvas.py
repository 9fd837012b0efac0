"""Canvases for the NumPy executor: tallies, blends and picks of many rows at once. The other ops of a denoising step are
small, and run by their meaning.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from doppler_core.device.numpy_call import Call
from doppler_core.device.numpy_products import LEAST, shares
from doppler_core.device.numpy_weights import BLOCK_BYTES
from doppler_core.plan.canvas import BLOCK
from doppler_core.plan.canvas_meaning import BEST, HEAD, MOST, SLOPE, SUM, settings, temperatures_of
from doppler_core.plan.operands import Array
from doppler_core.plan.sampling_meaning import scaled

# Rows of a part of a tally: their logits of a tile, and what is made of them, stay in a core's cache.
TALLY_ROWS = 16
TALLY_WORK = 10  # multiplications that a logit is worth
TOGETHER = 256  # columns of the soft embedding that a part has a multiple of: whole blocks of any stored type

Indices = npt.NDArray[np.intp]
Doubles = npt.NDArray[np.float64]


def _temperatures(call: Call) -> Array:
    """Each row's, [T, 1]."""
    found: Array = call.fact("temperatures", lambda: temperatures_of(call.tables)[:, None])
    return found


def tally_parts(call: Call, threads: int) -> Sequence[Sequence[slice]]:
    """Some rows each."""
    logits, count = call.inputs[0], len(call.inputs[0])
    parts = [slice(first, min(first + TALLY_ROWS, count)) for first in range(0, count, TALLY_ROWS)]
    return shares(parts, TALLY_WORK * logits.size, threads)


def tally_tiles(call: Call, parts: Sequence[slice]) -> None:
    """What a tile of logits says of some rows, put into the tally."""
    for rows in parts:
        _tally(call, rows)


def _tally(call: Call, rows: slice) -> None:
    logits, first = call.inputs[0][rows], int(call.params["first"])
    out, at, temperatures = call.output, call.lines()[rows], _temperatures(call)[rows]
    columns = logits.shape[1]
    whole = columns // BLOCK * BLOCK
    for begin, stop, width in ((0, whole, BLOCK), (whole, columns, columns - whole)):
        if begin < stop:
            own = logits[:, begin:stop].reshape(len(logits), -1, width)
            place = HEAD + 4 * ((first + begin) // BLOCK)
            found = _tallied(own, temperatures, first + begin)
            out[at, place : place + 4 * own.shape[1]] = found.reshape(len(logits), -1)
    before = out[at, 1].view(np.float32) if first else np.full(len(at), -np.inf, np.float32)
    out[at, 0] = before.view(np.uint32)
    out[at, 1] = np.maximum(before, logits.max(1)).view(np.uint32)


def _tallied(logits: Array, temperatures: Array, first: int) -> npt.NDArray[np.uint32]:
    """The four words of each block. logits [rows, blocks, width] of the tokens from `first` on."""
    words = np.empty((*logits.shape[:2], 4), np.uint32)
    best = logits.argmax(-1)  # of the first NaN, where there is one
    most = np.take_along_axis(logits, best[..., None], -1)
    below = scaled(logits, most, temperatures[:, None])
    weights = np.exp(below)
    words[..., MOST] = most[..., 0].view(np.uint32)
    words[..., SUM] = weights.sum(-1).view(np.uint32)
    words[..., SLOPE] = np.multiply(weights, below, out=below).sum(-1).view(np.uint32)
    words[..., BEST] = first + logits.shape[2] * np.arange(logits.shape[1]) + best
    return words


@dataclass(frozen=True)
class BlendPart:
    """Some columns of the soft embedding. weights: of the tile's tokens, [T, tokens]. kept: what is left of what was
    there, [T, 1]."""

    columns: slice
    weights: Array
    kept: Array


def blend_parts(call: Call, threads: int) -> Sequence[BlendPart]:
    """Some columns each."""
    logits, tallies, soft = call.inputs
    temperatures, columns = _temperatures(call), soft.shape[1]
    before, after = (tallies[call.lines(), word].view(np.float32)[:, None] for word in (0, 1))
    weights, count = np.empty_like(logits), len(logits)
    for first in range(0, count, TALLY_ROWS):
        rows = slice(first, first + TALLY_ROWS)
        np.exp(scaled(logits[rows], after[rows], temperatures[rows]), out=weights[rows])
    kept = np.exp(scaled(before, after, temperatures))
    parts = 1 if threads == 1 or logits.size * columns < threads * LEAST else 2 * threads
    step = -(-columns // (parts * TOGETHER)) * TOGETHER
    return [
        BlendPart(slice(first, min(first + step, columns)), weights, kept)
        for first in range(0, columns, step)
    ]


def blend_soft(call: Call, part: BlendPart) -> None:
    """The tokens' rows times their weights, and what is left of the tiles before."""
    table, at = call.weights[0], call.lines()
    width, tokens = part.columns.stop - part.columns.start, part.weights.shape[1]
    step = max(1, BLOCK_BYTES // (4 * width)) if table.packed else tokens
    added = np.zeros((len(part.weights), width), np.float32)
    for first in range(0, tokens, step):
        some = slice(first, min(first + step, tokens))
        added += part.weights[:, some] @ table.columns(some, part.columns)
    if call.params["first"]:
        added += part.kept * call.output[at, part.columns]
    call.output[at, part.columns] = added


def pick(call: Call) -> None:
    """The sample, the likeliest token and two numbers of each row."""
    hidden, tallies, noises = call.inputs
    at, temperatures, out = call.lines(), _temperatures(call), call.output
    blocks = tallies[at, HEAD:].reshape(len(at), -1, 4)
    most, total, slope = (
        np.ascontiguousarray(blocks[..., word]).view(np.float32) for word in (MOST, SUM, SLOPE)
    )
    best = most.argmax(1)[:, None]
    greatest = np.take_along_axis(most, best, 1)
    below = scaled(most, greatest, temperatures).astype(np.float64)
    grown = np.exp(below)
    weights = total.astype(np.float64) * grown
    whole = weights.sum(1)
    entropy = np.log(whole) - (grown * (slope + total * below)).sum(1) / whole
    out[:, :2] = np.take_along_axis(blocks[..., BEST], best, 1)
    out[:, 2] = np.maximum(entropy, 0).astype(np.float32).view(np.uint32)
    out[:, 3] = (1 / whole).astype(np.float32).view(np.uint32)
    greedy = np.array([one.greedy for one in settings(call.tables)])[call.tables.rows[:, 2]]
    drawn = np.flatnonzero(~(greedy | np.isnan(greatest[:, 0])))
    block, within = _beyond(weights[drawn], noises[at[drawn], 0].view(np.float32).astype(np.float64))
    for number in np.unique(block):
        mine = block == number
        rows = drawn[mine]
        logits = _logits(call, hidden[rows], int(number))
        own = scaled(logits, logits.max(1)[:, None], temperatures[rows])
        found, _ = _beyond(np.exp(own.astype(np.float64)), within[mine])
        out[rows, 0] = number * BLOCK + found


def _beyond(weights: Doubles, shares: Doubles) -> tuple[Indices, Doubles]:
    """Of each row the first column at which the running sum of weights exceeds that share of their sum, and what share of
    its own weight lies before."""
    ends = weights.cumsum(1)
    amounts = np.minimum(np.maximum(shares, 0) * ends[:, -1], np.nextafter(ends[:, -1], 0))
    found = (ends <= amounts[:, None]).sum(1)
    rows = np.arange(len(found))
    own = weights[rows, found]
    return found, (amounts - (ends[rows, found] - own)) / own


def _logits(call: Call, hidden: Array, block: int) -> Array:
    """Of the tokens of a block."""
    head, cap = call.weights[0], np.float32(call.params["cap"])
    values = head.values(block * BLOCK, min((block + 1) * BLOCK, head.shape[0]))
    logits: Array = hidden @ values.T
    return cap * np.tanh(logits / cap) if cap else logits
