"""Per-layer inputs (Gemma 4 E2B) as ops: P values a token for each of L layers, and the block that takes them in.

    inputs = (norm(x W / sqrt(hidden)) + table[id] * sqrt(P)) / sqrt(2), [T, L * P], each norm over P values
    layer: x += norm((gelu(x Wg) * its P of the inputs) Wp)
Formulas and order: Gemma 4 as published (transformers' Gemma4TextModel).
"""

import math

from doppler_core.errors import PlanError
from doppler_core.plan.layers import Layer
from doppler_core.plan.op import Finding, Value
from doppler_core.plan.stack import Stack
from doppler_core.weights.tensor import Tensor, tensor_bytes

_WHERE = "session.perLayerInputs.materialization"
_NOTE = "architecture.hiddenSizePerLayerInput"
ON_DEVICE = ("gpu_resident", "gpu_split_tables")


def per_layer_inputs(stack: Stack, x: Value, on_host: bool) -> Value:
    """The inputs of all layers, [T, layers * P], from the embedded rows x."""
    build, width = stack.build, stack.sizes.hidden_size_per_layer_input
    columns = stack.sizes.num_layers * width
    table = build.names.tensor("per_layer_embed", None)
    expected = (stack.sizes.vocab_size_per_layer_input, columns)
    if table.shape != expected:
        raise PlanError(
            f"{table.name}: expected shape {list(expected)} (architecture), found {list(table.shape)}"
        )
    if table.shape[0] < stack.sizes.vocab_size:
        raise PlanError(
            f"{table.name}: {table.shape[0]} rows for a vocabulary of {stack.sizes.vocab_size}: expected one for each "
            "token that the model may make"
        )
    rows = build.emit(
        "gather",
        "per_layer_embed",
        None,
        [],
        ("T", columns),
        weights=[table],
        params={"columns": columns, "scale": math.sqrt(width)},
        note=f"{_NOTE}; {_WHERE}",
        on_host=on_host,
    )
    context = build.matmul("per_layer_model_projection", None, x, note=_NOTE)
    if context.columns != columns:
        raise PlanError(
            f"per_layer_model_projection: expected {columns} outputs (architecture), found {context.columns}"
        )
    # The factor hidden^-0.5 before a norm is the same as an epsilon that is `hidden` times as large.
    norm = {**stack.norm, "eps": float(stack.norm["eps"]) * stack.sizes.hidden_size}
    context = build.norm("per_layer_projection_norm", None, context, norm, _NOTE, columns=width)
    return build.residual("per_layer_inputs", None, rows, context, 2**-0.5, _NOTE)


def take_in(stack: Stack, layer: Layer, x: Value, inputs: Value, gain: float, note: str) -> Value:
    """(x + norm(projection(gelu(gate(x)) * the layer's inputs))) * gain. [R, hidden] -> [R, hidden]."""
    build, number, width = stack.build, layer.number, stack.sizes.hidden_size_per_layer_input
    gate = build.matmul("per_layer_gate", number, x, note=_NOTE)
    if gate.columns != width:
        raise PlanError(
            f"layers.{number}.per_layer_gate: expected {width} outputs ({_NOTE}), found {gate.columns}"
        )
    h = build.emit(
        "gelu",
        "per_layer_activation",
        number,
        [gate, inputs],
        gate.shape,
        params={"columns": width, "up_first": number * width},
        note=_NOTE,
    )
    h = build.matmul("per_layer_projection", number, h, note=_NOTE)
    h = build.norm("per_layer_norm", number, h, stack.norm, note=_NOTE)
    return build.residual("per_layer_residual", number, x, h, gain, "; ".join(filter(None, (_NOTE, note))))


def gathered_on_host(mode: str, need: int, memory: int | None) -> bool:
    """Whether the table stays in its file and the host looks rows up, for a `materialization`.

    auto: on the device while all that the device would hold, `need` bytes with the table, fits `memory` (None: it does).
    """
    if mode == "auto":
        return memory is not None and need > memory
    return mode not in ON_DEVICE


def materialization_finding(mode: str, on_host: bool, table: Tensor) -> Finding:
    """What `plan` says of where the table lies."""
    size = f"{tensor_bytes(table.dtype, table.shape) / 1e9:.2f} GB"
    place = (
        f"{size} stay in the file, where the host looks rows up"
        if on_host
        else f"the device holds its {size}"
    )
    return Finding(f"{_WHERE}: {mode}", "on the host" if on_host else "on the device", place)
