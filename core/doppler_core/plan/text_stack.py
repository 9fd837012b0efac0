"""A Gemma text stack as ops: the order of its blocks comes from the architecture, their kernels from the manifest.

    x = embed(id) * sqrt(hidden);  each layer: attention, feed-forward, per-layer inputs, factor;  final norm
What a layer has follows from the manifest's fields and the checkpoint's tensors: Gemma 3 has the first two alone.
"""

from doppler_core.plan.attention import attend
from doppler_core.plan.feed_forward import feed_forward
from doppler_core.plan.layers import Layer
from doppler_core.plan.op import Value
from doppler_core.plan.per_layer_inputs import per_layer_inputs, take_in
from doppler_core.plan.stack import Stack, embed


def hidden_states(stack: Stack, *, last_only: bool = False, on_host: bool = False) -> Value:
    """All layers and the final norm, [T, hidden].

    last_only: [S, hidden], each slot's last row. The layers behind the last that owns keys and values then work on
    those rows alone: nothing that a later row or step reads comes from the others. on_host: the per-layer table is
    read by the host.
    """
    x = embed(stack)
    inputs = per_layer_inputs(stack, x, on_host) if stack.sizes.hidden_size_per_layer_input else None
    last_owner = max(layer.number for layer in stack.layers if layer.owns)
    for layer in stack.layers:
        x = block(stack, layer, x, inputs)
        if last_only and layer.number == last_owner:
            x = _last(stack, "last_rows", x)
            if inputs is not None and layer is not stack.layers[-1]:
                inputs = _last(stack, "last_per_layer_inputs", inputs)
    return stack.build.norm("final_norm", None, x, stack.norm)


def block(stack: Stack, layer: Layer, x: Value, inputs: Value | None = None) -> Value:
    """One layer, with its rows of the per-layer inputs where there are some. Its factor multiplies the whole residual stream, so it stands at the last sum."""
    gain = stack.build.names.layer_scalar(layer.number, stack.scalars)
    note = "" if gain == 1 else "layer_scalar"
    x = attend(stack, layer, x)
    if inputs is None:
        return feed_forward(stack, layer, x, gain, note)
    return take_in(stack, layer, feed_forward(stack, layer, x, 1.0, ""), inputs, gain, note)


def _last(stack: Stack, role: str, x: Value) -> Value:
    note = "no later row reads the others"
    return stack.build.emit(
        "last_rows", role, None, [x], ("S", x.columns), params={"columns": x.columns}, note=note
    )
