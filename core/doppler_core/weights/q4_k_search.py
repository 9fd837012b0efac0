"""The scales and minima of Q4_K superblocks: float32 values in, integers out. It knows no byte layout.

Three steps. (1) For each sub-block several step widths are tried; for the integers each one gives, the best scale
and minimum follow by least squares, and the pair with the smallest squared error stays. (2) Scales and minima are
rounded to 6 bits under the superblock's two f16 steps. (3) That rounding costs more than step 1 gains, so each
rounded pair is compared with its eight neighbours, now by the error of what will be stored.
"""

from itertools import product

import numpy as np
import numpy.typing as npt

from doppler_core.weights.floats import Floats

# Steps per span of a sub-block. 15 keeps both ends; fewer cut outliers off for a finer step elsewhere.
_WIDTHS = np.linspace(13, 16, 11, dtype=np.float32)
_NEIGHBOURS = tuple(product((0, -1, 1), (0, -1, 1)))

_Small = npt.NDArray[np.uint8]


def search(blocks: Floats) -> tuple[npt.NDArray[np.float16], _Small, _Small, _Small]:
    """[N, 8, 32] to steps f16 [N, 2] (d, dmin), scales and minima [N, 8] of 0..63, quants [N, 8, 32] of 0..15."""
    count = len(blocks)
    # One column per sub-block: the sums over its 32 values then run along memory.
    x = np.ascontiguousarray(blocks.reshape(-1, 32).T)
    scales, minima = _fit(x)
    d, scale_ints = _six_bits(scales.reshape(count, 8))
    dmin, minimum_ints = _six_bits(minima.reshape(count, 8))
    steps = np.concatenate([d, dmin], axis=1)
    column_d, column_dmin = np.repeat(steps.astype(np.float32), 8, axis=0).T
    scale_ints, minimum_ints = _best_neighbours(x, column_d, column_dmin, scale_ints, minimum_ints)
    quants = _quants(x, column_d * scale_ints, column_dmin * minimum_ints, np.empty_like(x)).astype(np.uint8)
    return (
        steps,
        scale_ints.reshape(count, 8),
        minimum_ints.reshape(count, 8),
        np.ascontiguousarray(quants.T).reshape(count, 8, 32),
    )


def _fit(x: Floats) -> tuple[Floats, Floats]:
    """[32, n] to the scale and the minimum (both >= 0, value = scale * q - minimum) of each column."""
    low = np.minimum(x.min(axis=0), 0)
    span = x.max(axis=0) - low
    inverse_span = _inverse(span)
    sum_x = x.sum(axis=0)
    best_scale, best_offset = span / np.float32(15), low
    best_gain = np.zeros_like(low)
    q = np.empty_like(x)
    for width in _WIDTHS:
        factor = inverse_span * width
        np.multiply(x, factor, out=q)
        q -= low * factor
        np.clip(np.rint(q, out=q), 0, 15, out=q)
        sum_q, sum_qq, sum_qx = _sums(q, x)
        scale, offset = _least_squares(sum_x, sum_q, sum_qq, sum_qx)
        # What the fit explains of the sum of squares: the larger, the smaller the error.
        gain = scale * sum_qx + offset * sum_x
        better = gain > best_gain
        best_gain = np.where(better, gain, best_gain)
        best_scale = np.where(better, scale, best_scale)
        best_offset = np.where(better, offset, best_offset)
    return best_scale, -best_offset


def _least_squares(sum_x: Floats, sum_q: Floats, sum_qq: Floats, sum_qx: Floats) -> tuple[Floats, Floats]:
    """The scale and the offset (at most 0) that bring scale * q + offset closest to x."""
    inverse = _inverse(32 * sum_qq - sum_q * sum_q)
    scale = (32 * sum_qx - sum_x * sum_q) * inverse
    offset = (sum_qq * sum_x - sum_q * sum_qx) * inverse
    positive = offset > 0
    scale = np.where(positive, sum_qx * _inverse(sum_qq), scale)
    return scale, np.where(positive, np.float32(0), offset)


def _six_bits(values: Floats) -> tuple[npt.NDArray[np.float16], _Small]:
    """[N, 8] to a common f16 step [N, 1] and integers 0..63."""
    step = (values.max(axis=1, keepdims=True) / np.float32(63)).astype(np.float16)
    ints = np.clip(np.rint(values * _inverse(step.astype(np.float32))), 0, 63)
    return step, ints.astype(np.uint8)


def _best_neighbours(
    x: Floats, d: Floats, dmin: Floats, scales: _Small, minima: _Small
) -> tuple[_Small, _Small]:
    """Each column's pair of 6-bit integers, or the one beside it with the least error."""
    scale_ints, minimum_ints = scales.reshape(-1).astype(np.float32), minima.reshape(-1).astype(np.float32)
    best_error = np.full_like(scale_ints, np.inf)
    best_scale, best_minimum = scale_ints, minimum_ints
    sum_x = x.sum(axis=0)
    q = np.empty_like(x)
    for scale_step, minimum_step in _NEIGHBOURS:
        scale_int = np.clip(scale_ints + np.float32(scale_step), 0, 63)
        minimum_int = np.clip(minimum_ints + np.float32(minimum_step), 0, 63)
        scale, minimum = d * scale_int, dmin * minimum_int
        sum_q, sum_qq, sum_qx = _sums(_quants(x, scale, minimum, q), x)
        # Sum of (scale q - minimum - x)^2 without the sum of x^2, which all neighbours share.
        error = scale * (scale * sum_qq - 2 * (sum_qx + minimum * sum_q)) + minimum * (
            2 * sum_x + 32 * minimum
        )
        better = error < best_error
        best_error = np.where(better, error, best_error)
        best_scale = np.where(better, scale_int, best_scale)
        best_minimum = np.where(better, minimum_int, best_minimum)
    return best_scale.astype(np.uint8), best_minimum.astype(np.uint8)


def _quants(x: Floats, scale: Floats, minimum: Floats, out: Floats) -> Floats:
    """The integers 0..15 nearest to (x + minimum) / scale, as float32 in `out`."""
    np.add(x, minimum, out=out)
    out *= _inverse(scale)
    return np.clip(np.rint(out, out=out), 0, 15, out=out)


def _sums(q: Floats, x: Floats) -> tuple[Floats, Floats, Floats]:
    """Per column: the sums of q, of q^2 and of q x."""
    return q.sum(axis=0), np.einsum("ij,ij->j", q, q), np.einsum("ij,ij->j", q, x)


def _inverse(values: Floats) -> Floats:
    """1 / x where x > 0, else 0."""
    return np.divide(np.float32(1), values, out=np.zeros_like(values), where=values > 0)
