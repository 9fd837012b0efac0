"""What the ops of a mixture of experts mean, in plain NumPy: the oracle, like plan.meaning.

Routes say which experts serve a row: u32 [R, 2 * chosen], pairs of an expert and the bits of its weight, the likeliest
first. Formulas: Gemma 4 26B-A4B as published (transformers' Gemma4TextRouter, Gemma4TextExperts).
"""

import numpy as np
import numpy.typing as npt

from doppler_core.plan.operands import Array, Operands, Params, Table, Tables


def route(params: Params, given: Operands, tables: Tables) -> Table:
    """The experts of greatest score, of equal ones the lower first. scores [R, E], weight [E] or none -> routes.

    An expert's weight is softmax(scores), divided by the sum of the chosen ones' with `normalize`, times the expert's
    own factor where there is a weight.
    """
    scores = given.inputs[0]
    chosen = np.argsort(-scores, -1, kind="stable")[:, : int(params["chosen"])]
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    total = weights.sum(-1, keepdims=True, dtype=np.float32)
    weights = np.take_along_axis(weights, chosen, -1)
    weights = weights / (weights.sum(-1, keepdims=True) if params["normalize"] else total)
    if given.weights:
        weights = weights * given.weights[0][chosen]
    return pairs(chosen, weights)


def pairs(chosen: npt.NDArray[np.integer], weights: Array) -> Table:
    """Routes out of experts [R, chosen] and their weights [R, chosen]."""
    bits = weights.astype(np.float32).view(np.uint32)
    routes: Table = np.stack([chosen.astype(np.uint32), bits], -1).reshape(len(chosen), -1)
    return routes


def unpaired(routes: Table) -> tuple[Table, Array]:
    """Experts [R, chosen] and their weights [R, chosen] out of routes."""
    both = routes.reshape(len(routes), -1, 2)
    return both[..., 0], np.ascontiguousarray(both[..., 1]).view(np.float32)


def expert_matmul(params: Params, given: Operands, tables: Tables) -> Array:
    """x W^T with the matrix of each of a row's experts. W [E, columns, inner] -> [R, chosen * columns].

    x [R, inner], or with `own_inputs` [R, chosen * inner], a run for each route. A route's outputs lie together; with
    `parts` 2 their first halves do, and behind those of all routes their second halves.
    """
    x, routes = given.inputs
    chosen, parts = int(params["chosen"]), int(params["parts"])
    experts, _ = unpaired(routes)
    inputs = x.reshape(len(x), -1, int(params["inner"]))  # one run for all routes, or one for each
    out = np.empty((len(x), chosen, int(params["columns"])), np.float32)
    for row in range(len(x)):
        for nth in range(chosen):
            own = inputs[row, nth if params["own_inputs"] else 0]
            out[row, nth] = given.weights[0][experts[row, nth]] @ own
    return out.reshape(len(x), chosen, parts, -1).transpose(0, 2, 1, 3).reshape(len(x), -1)


def expert_sum(params: Params, given: Operands, tables: Tables) -> Array:
    """The routes' outputs times their weights, added up. x [R, chosen * columns], routes -> [R, columns]."""
    x, routes = given.inputs
    _, weights = unpaired(routes)
    runs = x.reshape(len(x), weights.shape[1], -1)
    out: Array = (weights[..., None] * runs).sum(1, dtype=np.float32)
    return out
