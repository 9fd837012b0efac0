"""The feed-forward half of a Gemma block as ops, its kernels from the manifest.

    x += norm(f), f = down(gelu(gate(b)) * up(b)), b = norm(x);  beside experts f = norm(down(...)) + norm(experts(x))
Formulas and order: Gemma 3 and Gemma 4 as published (transformers' Gemma3MLP, Gemma4TextMLP).
"""

from doppler_core.errors import PlanError
from doppler_core.plan.experts import expert_branch, experts_of
from doppler_core.plan.layers import Layer
from doppler_core.plan.op import Value
from doppler_core.plan.stack import Stack

_DENSE = ("gate_proj", "up_proj", "activation", "down_proj")


def feed_forward(stack: Stack, layer: Layer, x: Value, gain: float, note: str) -> Value:
    """(x + norm(f)) * gain. [R, hidden] -> [R, hidden]."""
    build, number = stack.build, layer.number
    b = build.norm("pre_feedforward_norm", number, x, stack.norm, note="normalization.preFeedforwardNorm")
    h = gated(stack, number, b, layer.intermediate_size, _DENSE)
    experts = experts_of(stack, layer)
    if experts is not None:
        h = build.norm("dense_norm", number, h, stack.norm, note="ffn.branchMode")
        h = build.residual(
            "experts_residual", number, expert_branch(stack, layer, experts, x), h, note="ffn.branchMode"
        )
    h = build.norm("post_feedforward_norm", number, h, stack.norm, note="normalization.postFeedforwardNorm")
    return build.residual("ffn_residual", number, x, h, gain, note)


def gated(
    stack: Stack, layer: int | None, x: Value, width: int, roles: tuple[str, str, str, str], note: str = ""
) -> Value:
    """down(gelu(gate) * up) of normed rows. roles: of gate, up, the activation and down. width: outputs of the first two."""
    build, (*both, activation, down) = stack.build, roles
    gate, up = (build.matmul(role, layer, x, note=note) for role in both)
    for value in (gate, up):
        if value.columns != width:
            raise PlanError(
                f"{value.name}: expected {width} outputs (architecture.intermediateSize"
                f"{', ffn.useDoubleWideMlp' if stack.manifest.inference.ffn.use_double_wide_mlp else ''}), found "
                f"{value.columns}"
            )
    h = build.emit("gelu", activation, layer, [gate, up], gate.shape, params={"columns": width}, note=note)
    return build.matmul(down, layer, h, note=note)
