"""The feed-forward half of a Gemma block as ops, its kernels from the manifest.

    x += norm(f), f = down(gelu(gate(b)) * up(b)), b = norm(x);  beside experts f = norm(down(...)) + norm(experts(x))
Formulas and order: Gemma 3 and Gemma 4 as published (transformers' Gemma3MLP, Gemma4TextMLP).
"""

from doppler_core.errors import PlanError
from doppler_core.plan.experts import expert_branch, experts_of
from doppler_core.plan.layers import Layer
from doppler_core.plan.op import Value
from doppler_core.plan.stack import Stack


def feed_forward(stack: Stack, layer: Layer, x: Value, gain: float, note: str) -> Value:
    """(x + norm(f)) * gain. [R, hidden] -> [R, hidden]."""
    build, number = stack.build, layer.number
    h = _dense(stack, layer, x)
    experts = experts_of(stack, layer)
    if experts is not None:
        h = build.norm("dense_norm", number, h, stack.norm, note="ffn.branchMode")
        h = build.residual(
            "experts_residual", number, expert_branch(stack, layer, experts, x), h, note="ffn.branchMode"
        )
    h = build.norm("post_feedforward_norm", number, h, stack.norm, note="normalization.postFeedforwardNorm")
    return build.residual("ffn_residual", number, x, h, gain, note)


def _dense(stack: Stack, layer: Layer, x: Value) -> Value:
    """down(gelu(gate) * up) of the normed rows."""
    build, number = stack.build, layer.number
    b = build.norm("pre_feedforward_norm", number, x, stack.norm, note="normalization.preFeedforwardNorm")
    gate, up = (build.matmul(role, number, b) for role in ("gate_proj", "up_proj"))
    for value, role in ((gate, "gate_proj"), (up, "up_proj")):
        if value.columns != layer.intermediate_size:
            raise PlanError(
                f"layers.{number}.{role}: expected {layer.intermediate_size} outputs (architecture.intermediateSize"
                f"{', ffn.useDoubleWideMlp' if stack.manifest.inference.ffn.use_double_wide_mlp else ''}), found "
                f"{value.columns}"
            )
    h = build.emit("gelu", "activation", number, [gate, up], gate.shape, params={"columns": gate.columns})
    return build.matmul("down_proj", number, h)
