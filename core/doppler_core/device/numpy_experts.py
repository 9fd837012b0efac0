"""A mixture of experts for the NumPy executor: each expert's matrix is expanded for the rows that want it, and dropped.

A step of many rows wants most experts, so that their matrices are what a step reads; expanded they would be several
times what the file is. A part is a block of one expert's columns, for all its rows, and is expanded once: a tile of it at
a time, which is multiplied by while it is in a core's cache.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from doppler_core.device.numpy_call import Call
from doppler_core.device.numpy_products import TOGETHER, multiply_values, shares
from doppler_core.device.numpy_weights import BLOCK_BYTES
from doppler_core.plan.expert_meaning import unpaired

# Of an expanded tile. 16 rows by a matrix of 704 x 2816 in Q4_K, in one thread: 2.7 ms in tiles of one megabyte, 2.9 in
# one of eight.
TILE_BYTES = 1 << 20

Indices = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Wanting:
    """The routes to an expert: the rows that want it, and which of its row's routes each is."""

    expert: int
    rows: Indices
    nth: Indices


@dataclass(frozen=True)
class ExpertPart:
    """The columns first .. stop - 1 of an expert's matrix, all in one of the output's parts."""

    wanting: Wanting
    first: int
    stop: int


def wanting(routes: npt.NDArray[np.uint32]) -> list[Wanting]:
    """The experts that a step's rows want, those of most rows first."""
    experts, _ = unpaired(routes)
    order = np.argsort(experts, axis=None, kind="stable")
    rows, nth = np.divmod(order, experts.shape[1])
    numbers, starts = np.unique(experts.reshape(-1)[order], return_index=True)
    found = [
        Wanting(expert, rows[a:b], nth[a:b])
        for expert, (a, b) in zip(numbers.tolist(), pairwise([*starts.tolist(), len(order)]), strict=True)
    ]
    return sorted(found, key=lambda one: len(one.rows), reverse=True)


def expert_parts(call: Call, threads: int) -> Sequence[Sequence[ExpertPart]]:
    """The parts of an `expert_matmul`; its routes have been made."""
    routes = call.inputs[1]
    wanted: list[Wanting] = call.fact(("experts", id(routes)), lambda: wanting(routes))
    blocks = list(_blocks(call))
    parts = [ExpertPart(one, first, stop) for one in wanted for first, stop in blocks]
    return shares(parts, call.output.size * int(call.params["inner"]), threads)


def _blocks(call: Call) -> Iterator[tuple[int, int]]:
    """An expert's columns in blocks that stay in a core's cache, as even as may be."""
    part = int(call.params["columns"]) // int(call.params["parts"])
    count = -(-4 * part * int(call.params["inner"]) // BLOCK_BYTES)
    step = -(-part // count)
    for begin in range(0, int(call.params["columns"]), part):
        for first in range(begin, begin + part, step):
            yield first, min(first + step, begin + part)


def multiply_experts(call: Call, parts: Sequence[ExpertPart]) -> None:
    """The products of each part's columns by the inputs of the rows that want the expert."""
    for part in parts:
        _multiply(call, part)


def _multiply(call: Call, part: ExpertPart) -> None:
    columns, inner, parts = (int(call.params[name]) for name in ("columns", "inner", "parts"))
    rows, nth = part.wanting.rows, part.wanting.nth
    x = call.inputs[0].reshape(len(call.inputs[0]), -1, inner)
    own = x[rows, nth] if call.params["own_inputs"] else x[rows, 0]
    width = part.stop - part.first
    products = np.empty((len(rows), width), np.float32)
    begin = part.wanting.expert * columns + part.first
    step = max(1, TILE_BYTES // (4 * inner * TOGETHER)) * TOGETHER
    for first in range(0, width, step):
        stop = min(first + step, width)
        multiply_values(own, call.weights[0].values(begin + first, begin + stop), products[:, first:stop])
    lines = call.output.reshape(len(call.output), parts, -1, columns // parts)
    which, first = divmod(part.first, columns // parts)
    lines[rows, which, nth, first : first + width] = products


def expert_sum(call: Call, a: int, b: int) -> None:
    """The routes' outputs times their weights, added up."""
    _, weights = unpaired(call.inputs[1][a:b])
    runs = call.inputs[0][a:b].reshape(b - a, weights.shape[1], -1)
    np.matmul(weights[:, None], runs, out=call.output[a:b, None])
