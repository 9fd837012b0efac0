"""Steps of canvases: their tables, logits, tallies and noise, for the meaning, the NumPy twins and the kernels alike."""

from collections.abc import Sequence

import numpy as np
from gpu_ops import packed_step

from doppler_core.plan.canvas import BLOCK, CanvasStep, pack
from doppler_core.plan.canvas_meaning import HEAD
from doppler_core.plan.meaning import MEANINGS
from doppler_core.plan.op import Scalar
from doppler_core.plan.operands import Operands, Tables

# 99.9 % of a normal distribution: passed once in a thousand seeds, and the seeds of tests are fixed.
EXTREME = 3.09

UNTOUCHED = 0xDEADBEEF


def canvas_step(
    lengths: Sequence[int],
    settings: Sequence[CanvasStep] = (),
    starts: Sequence[int] = (),
    places: Sequence[int] = (),
) -> Tables:
    """Tables of one canvas a slot, of so many rows each."""
    step = packed_step(lengths, starts or 0, places=places)
    every = settings or [CanvasStep(0.7, 11 + slot, 5, 0.1) for slot in range(len(lengths))]
    return Tables(step.rows, step.slots, pack(every))


def meant(
    meaning: str,
    step: Tables,
    *inputs: np.ndarray,
    weights: Sequence[np.ndarray] = (),
    **params: Scalar,
) -> np.ndarray:
    """What the op means."""
    return MEANINGS[meaning](params, Operands(inputs, weights), step)


def empty_tally(lines: int, vocabulary: int) -> np.ndarray:
    """A tally that nothing was put into: words that would show if they were read."""
    return np.full((lines, HEAD + 4 * -(-vocabulary // BLOCK)), UNTOUCHED, np.uint32)


def tallied(step: Tables, logits: np.ndarray, lines: int, capacity: int, tile: int = 8192) -> np.ndarray:
    """The tally of whole logits [T, V], taken in tiles."""
    tally = empty_tally(lines, logits.shape[1])
    for first in range(0, logits.shape[1], tile):
        part = logits[:, first : first + tile]
        tally = meant("tally", step, part, tally, first=first, capacity=capacity)
    return tally


def drawn_noise(draw: np.random.Generator, lines: int, vocabulary: int) -> np.ndarray:
    """Noise of so many positions, u32 [lines, 2]."""
    words = np.zeros((lines, 2), np.uint32)
    words[:, 0] = draw.random(lines, np.float32).view(np.uint32)
    words[:, 1] = draw.integers(0, vocabulary, lines)
    return words


def drawn_picks(draw: np.random.Generator, rows: int, vocabulary: int) -> np.ndarray:
    """What `pick` might give for so many rows, u32 [rows, 4]: entropies of 0 to 0.2 nats, many of them equal."""
    picks = draw.integers(0, vocabulary, (rows, 4)).astype(np.uint32)
    picks[:, 2] = (draw.integers(0, 20, rows).astype(np.float32) / 100).view(np.uint32)
    picks[:, 3] = draw.random(rows, np.float32).view(np.uint32)
    return picks


def numbers(table: np.ndarray, columns: slice | Sequence[int]) -> np.ndarray:
    """Words of a table as the f32 they are the bits of."""
    return np.ascontiguousarray(table[:, columns]).view(np.float32)


def surprising(counts: np.ndarray, expected: np.ndarray) -> bool:
    """Whether chi-squared finds counts as far from what is expected as once in a thousand times (Wilson and Hilferty)."""
    degrees = len(counts) - 1
    part = 2 / (9 * degrees)
    return bool(((counts - expected) ** 2 / expected).sum() > degrees * (1 - part + EXTREME * part**0.5) ** 3)


def softmax(logits: np.ndarray, temperature: float) -> np.ndarray:
    """In f64, of whole rows."""
    z = logits.astype(np.float64) / temperature
    weights = np.exp(z - z.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def assert_drawn(tokens: np.ndarray, shares: np.ndarray, u: np.ndarray, tolerance: float) -> None:
    """Each row's token is possible and lies where the running sum of its shares passes u, or within rounding of it."""
    ends = np.cumsum(shares, -1)
    for row, token in enumerate(tokens):
        assert shares[row, token] > 0
        assert ends[row, token] - shares[row, token] <= u[row] + tolerance
        assert ends[row, token] >= u[row] - tolerance


# What rounding may make of a logit when it is made again: at a low temperature the weight of all there is, or nothing.
HAIRS = (1e-5, -1e-5)
COLD = (1e-8, 1e-19)


def likeliest_by_far(draw: np.random.Generator, rows: int, tokens: int) -> np.ndarray:
    """Logits of which the greatest of a row is far above the others, [rows, tokens]."""
    logits = draw.standard_normal((rows, tokens)).astype(np.float32)
    logits[np.arange(rows), draw.integers(0, tokens, rows)] = 5
    return logits
