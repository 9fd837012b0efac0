"""Attention for the NumPy executor: among the rows of a step, or over the keys and values that a state keeps.

Either falls into parts, blocks of queries of one sequence, which threads can run side by side. What parts there are
follows from the step's tables and from `causal`, `window`, `capacity` and `canvas` alone, so that layers can share them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from doppler_core.plan.meaning import visible
from doppler_core.plan.operands import Array, Params, Tables

QUERY_BLOCK = 256  # rows of queries whose scores exist at one time


@dataclass(frozen=True)
class Part:
    """Consecutive query rows of one sequence, and the keys that some of them see.

    spans: lines of the keys, in order of position: one slice, or two around the end of a ring. bias: what is added to
    scores, [queries, keys], 0 or -inf; None where every query sees every key.
    """

    queries: slice
    spans: tuple[slice, ...]
    bias: Array | None

    @property
    def size(self) -> int:
        """Scores to be made, for each head."""
        keys = sum(_length(span) for span in self.spans)
        return _length(self.queries) * keys


def _length(span: slice) -> int:
    return int(span.stop - span.start)


def step_parts(params: Params, tables: Tables) -> list[Part]:
    """The parts of an `attention`, the largest first: keys are the rows of the step."""
    window, causal, parts = int(params["window"]), bool(params["causal"]), []
    position = tables.rows[:, 1]
    for first, count, *_ in tables.slots.tolist():
        for queries in _blocks(first, first + count):
            before = window if causal else window // 2
            start = max(first, queries.start - before + causal) if window else first
            after = 0 if causal else window // 2
            stop = min(first + count, queries.stop + after) if window or causal else first + count
            bias = None
            if causal or window:
                bias = _bias(visible(params, position[queries], position[start:stop]))
            parts.append(Part(queries, (slice(start, stop),), bias))
    return _largest_first(parts)


def cached_parts(params: Params, tables: Tables) -> list[Part]:
    """The parts of a `cached_attention`, the largest first: keys are lines of the state.

    tables: whose `rows` are the op's, T or S; the rows of a slot lie one behind the other.
    """
    capacity, window, parts = int(params["capacity"]), int(params["window"]), []
    canvas = bool(params.get("canvas", False))
    slot = tables.rows[:, 2].astype(np.int64)
    for first_row, end_row in pairwise(np.flatnonzero(np.diff(slot, prepend=-1, append=-1)).tolist()):
        base = int(tables.slots[slot[first_row], 3]) * capacity
        for queries in _blocks(first_row, end_row):
            # The rows from whose first position to whose last one all of `queries` see.
            whole = slice(first_row, end_row) if canvas else queries
            position = int(tables.rows[whole.start, 1])
            end = position + _length(whole)
            first = max(0, position - window + 1) if window else 0
            bias = None
            if end - position > 1 and not canvas:
                seen = np.arange(first, end, dtype=np.uint32)
                bias = _bias(visible({"causal": True, "window": window}, seen[position - first :], seen))
            parts.append(Part(queries, _ring(base, capacity, first, end), bias))
    return _largest_first(parts)


def _blocks(start: int, stop: int) -> Iterable[slice]:
    return (slice(first, min(first + QUERY_BLOCK, stop)) for first in range(start, stop, QUERY_BLOCK))


def _ring(base: int, capacity: int, first: int, end: int) -> tuple[slice, ...]:
    """The lines of positions first .. end - 1 in the ring of `capacity` lines at `base`."""
    start, count = first % capacity, end - first
    if start + count <= capacity:
        return (slice(base + start, base + start + count),)
    return slice(base + start, base + capacity), slice(base, base + start + count - capacity)


def _bias(seen: npt.NDArray[np.bool_]) -> Array | None:
    return None if seen.all() else np.where(seen, np.float32(0), np.float32(-np.inf))


def _largest_first(parts: list[Part]) -> list[Part]:
    return sorted(parts, key=lambda part: part.size, reverse=True)


def attend(params: Params, q: Array, k: Array, v: Array, out: Array, part: Part) -> None:
    """The rows of `part`. q [R, heads * d], k and v [keys, kv_heads * d] with contiguous lines -> out [R, heads * d]."""
    kv_heads, width = int(params["kv_heads"]), int(params["head_dim"])
    group, cap = int(params["heads"]) // kv_heads, np.float32(params["softcap"])
    rows, ends = _length(part.queries), [0, *accumulate(map(_length, part.spans))]
    scores = np.empty((rows * group, ends[-1]), np.float32)
    for head in range(kv_heads):
        mine = slice(head * group * width, (head + 1) * group * width)
        keys = slice(head * width, (head + 1) * width)
        # The heads that share a key head become rows of one product: [queries * group, keys].
        queries = q[part.queries, mine].reshape(-1, width) * np.float32(params["scale"])
        for span, (a, b) in zip(part.spans, pairwise(ends), strict=True):
            np.matmul(queries, k[span, keys].T, out=scores[:, a:b])
        if cap:
            np.divide(scores, cap, out=scores)
            np.tanh(scores, out=scores)
            np.multiply(scores, cap, out=scores)
        if part.bias is not None:
            grouped = scores.reshape(rows, group, -1)
            np.add(grouped, part.bias[:, None], out=grouped)
        np.subtract(scores, scores.max(-1, keepdims=True), out=scores)
        np.exp(scores, out=scores)
        mixed = scores[:, : ends[1]] @ v[part.spans[0], keys]
        if len(part.spans) > 1:
            np.add(mixed, scores[:, ends[1] :] @ v[part.spans[1], keys], out=mixed)
        np.divide(mixed, scores.sum(-1, keepdims=True), out=mixed)
        out[part.queries, mine] = mixed.reshape(rows, -1)
