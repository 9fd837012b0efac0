"""Rotary positions of a layer: the table of its type, and the op that turns queries or keys by it."""

from doppler_core.errors import PlanError
from doppler_core.manifest.model import Manifest
from doppler_core.plan.layers import Layer
from doppler_core.plan.op import Constant, Scalar, Value
from doppler_core.plan.sizes import given
from doppler_core.plan.stack import Stack


def rotate(stack: Stack, role: str, layer: Layer, x: Value, heads: int) -> Value:
    """Turn each head of x by its row's position. [T, heads * head_dim] -> the same."""
    return stack.build.emit(
        "rope",
        role,
        layer.number,
        [x],
        x.shape,
        constants=[_table(stack, layer)],
        params={"heads": heads, "head_dim": layer.head_dim},
    )


def _table(stack: Stack, layer: Layer) -> Constant:
    """The cos and sin table of a layer: the sliding ones have a theta and a scaling of their own."""
    rope, sliding, width = stack.manifest.inference.rope, layer.sliding, layer.head_dim
    theta = rope.rope_local_theta if sliding and rope.rope_local_theta is not None else rope.rope_theta
    factor = rope.rope_local_scaling_factor if sliding else rope.rope_scaling_factor
    params: dict[str, Scalar] = {
        "positions": stack.positions,
        "head_dim": width,
        "theta": given(theta, "rope.ropeTheta"),
        "scaling_factor": factor,
    }
    name = f"rope({theta:g}, width {width}"
    pairs = width // 2 if sliding else _pairs(stack.manifest, width)
    if pairs != width // 2:
        params["pairs"] = pairs
        name += f", {pairs} pairs"
    if factor != 1:
        name += f", positions / {factor:g}"
    return Constant(f"{name})", "rope", (stack.positions, width // 2, 2), params)


def _pairs(manifest: Manifest, width: int) -> int:
    """How many of a full layer's pairs turn. Exponents and pairing are the whole head's: Gemma 4's proportional form."""
    rope = manifest.inference.rope
    if rope.partial_rotary_factor is None:
        return width // 2
    base = rope.rope_frequency_base_dim
    if base != width:
        raise PlanError(
            f"inference.rope.ropeFrequencyBaseDim: expected {width}, the width of a full layer's head, beside "
            f"partialRotaryFactor {rope.partial_rotary_factor:g}, found {base}; rotation of a part of the head by itself is "
            "not built"
        )
    return int(rope.partial_rotary_factor * width // 2)
