"""A mixture of experts beside the dense branch of a Gemma block, as ops.

    r = x;  scores = norm(r) * scale * hidden^-0.5 Wr;  p = softmax(scores);  w = the top p, summing to 1, * expert scale
    y = sum over the top experts of w * down(gelu(gate(e)) * up(e)), e = norm(r)
    x += norm(norm(dense(norm(r))) + norm(y))
Formulas: Gemma 4 26B-A4B and DiffusionGemma as published (transformers' Gemma4TextRouter, Gemma4TextExperts). The router
reads the residual itself.
"""

from dataclasses import dataclass, replace

from doppler_core.errors import PlanError
from doppler_core.plan.layers import Layer
from doppler_core.plan.op import Scalar, Value
from doppler_core.plan.stack import Stack

_NOTE = "ffn.branchMode"


@dataclass(frozen=True)
class Experts:
    """Sizes of `moeConfig`: how many experts, how many serve a row, how wide each is; and what the router does: all three,
    but where `diffusionGemma.router` leaves one out."""

    count: int
    chosen: int
    width: int
    scale_hidden_states: bool = True
    normalize_top_k: bool = True
    per_expert_scale: bool = True


def experts_of(stack: Stack, layer: Layer) -> Experts | None:
    """What the manifest says of the layer's experts; None where it has none. PlanError where checkpoint and manifest
    differ on that."""
    inference, config = stack.manifest.inference, stack.manifest.moe_config
    router = stack.build.names.name("router", layer.number)
    there, mode = stack.build.names.has(router), inference.ffn.branch_mode
    if there != (config is not None) or (there and mode == "dense") or (not there and "moe" in (mode or "")):
        raise PlanError(
            f"{router}: layer {layer.number} has {'a' if there else 'no'} mixture of experts in the checkpoint, while moeConfig "
            f"is {'set' if config else 'null'} and ffn.branchMode {mode}: expected all three to speak of experts, or none"
        )
    if config is None:
        return None
    if config.expert_format != "gemma4":
        raise PlanError(
            f"moeConfig.expertFormat: expected gemma4, the experts of a layer in one tensor, found {config.expert_format}"
        )
    sizes = Experts(config.num_experts, config.num_experts_per_token, config.expert_intermediate_size)
    if inference.diffusion_gemma is None:
        return sizes
    factors = inference.diffusion_gemma.router
    return replace(
        sizes,
        scale_hidden_states=factors.scale_hidden_states,
        normalize_top_k=factors.normalize_top_k,
        per_expert_scale=factors.per_expert_scale,
    )


def expert_branch(stack: Stack, layer: Layer, sizes: Experts, x: Value) -> Value:
    """norm(sum of the chosen experts' outputs). x is the residual, [R, hidden] -> [R, hidden]."""
    build, number, hidden = stack.build, layer.number, x.columns
    routes = _routes(stack, layer, sizes, x)
    e = build.norm("experts_norm", number, x, stack.norm, _NOTE)
    both = 2 * sizes.width
    h = _multiply(stack, layer, "experts_gate_up", sizes, e, routes, (both, hidden), parts=2)
    inner = sizes.chosen * sizes.width
    h = build.emit(
        "gelu",
        "experts_activation",
        number,
        [h, h],
        (h.shape[0], inner),
        params={"columns": inner, "up_first": inner},
        note=_NOTE,
    )
    h = _multiply(stack, layer, "experts_down", sizes, h, routes, (hidden, sizes.width), own=True)
    params: dict[str, Scalar] = {"columns": hidden, "chosen": sizes.chosen}
    y = build.emit(
        "expert_sum", "experts_sum", number, [h, routes], (x.shape[0], hidden), params=params, note=_NOTE
    )
    return build.norm("post_experts_norm", number, y, stack.norm, _NOTE)


def _routes(stack: Stack, layer: Layer, sizes: Experts, x: Value) -> Value:
    """Each row's experts and their weights, u32 [R, 2 * chosen]."""
    build, number = stack.build, layer.number
    norm = {"eps": stack.norm["eps"], "offset": 0.0}
    scaled = sizes.scale_hidden_states
    gain = x.columns**-0.5 if scaled else 1.0
    r = build.norm("router_norm", number, x, norm, _NOTE, gain=gain, weighted=scaled)
    scores = build.matmul("router", number, r, note=_NOTE)
    if scores.columns != sizes.count:
        raise PlanError(
            f"layers.{number}.router: expected {sizes.count} outputs (moeConfig.numExperts), found {scores.columns}"
        )
    scale = [build.names.tensor("route", number)] if sizes.per_expert_scale else []
    for tensor in scale:
        if tensor.shape != (sizes.count,):
            raise PlanError(f"{tensor.name}: expected shape [{sizes.count}], found {list(tensor.shape)}")
    return build.emit(
        "route",
        "route",
        number,
        [scores],
        Value(f"layers.{number}.routes", (x.shape[0], 2 * sizes.chosen), "u32"),
        weights=scale,
        params={"columns": sizes.count, "chosen": sizes.chosen, "normalize": sizes.normalize_top_k},
        note=_NOTE,
    )


def _multiply(
    stack: Stack,
    layer: Layer,
    role: str,
    sizes: Experts,
    x: Value,
    routes: Value,
    shape: tuple[int, int],
    parts: int = 1,
    own: bool = False,
) -> Value:
    """x W^T with the matrix of each of the row's experts, [R, chosen * columns]."""
    weight = stack.build.names.tensor(role, layer.number)
    if weight.shape != (sizes.count, *shape):
        raise PlanError(
            f"{weight.name}: expected shape {[sizes.count, *shape]} (moeConfig, hiddenSize), found {list(weight.shape)}"
        )
    columns, inner = shape
    params: dict[str, Scalar] = {
        "columns": columns,
        "inner": inner,
        "experts": sizes.count,
        "chosen": sizes.chosen,
        "parts": parts,
        "own_inputs": own,
    }
    return stack.build.emit(
        "expert_matmul",
        role,
        layer.number,
        [x, routes],
        (x.shape[0], sizes.chosen * columns),
        weights=[weight],
        params=params,
        note=_NOTE,
    )
