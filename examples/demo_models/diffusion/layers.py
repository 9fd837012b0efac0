"""A layer of DiffusionGemma in plain torch: attention that may read an encoder's keys and values, a dense
feed-forward, and experts chosen by a router beside it.

Attention, norms and the dense feed-forward are the chat model's. Parameter names are those of a checkpoint. Formulas:
Hugging Face transformers, `DiffusionGemmaForBlockDiffusion`.
"""

import math
from dataclasses import dataclass

import beside  # noqa: F401
import torch
import torch.nn.functional as F
from model import FULL, SLIDING, Attention, Mlp, Norm
from model import Shape as TextShape
from torch import Tensor, nn

KeysValues = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Shape(TextShape):
    """Sizes; of those inherited, inputs per layer and shared keys and values are not in use."""

    vocab: int = 1280
    hidden: int = 160
    intermediate: int = 256
    kinds: tuple[str, ...] = (SLIDING, FULL, SLIDING, FULL, FULL)
    shared: int = 0
    per_layer: int = 0
    window: int = 32
    experts: int = 8
    chosen: int = 2  # experts of a token
    expert_width: int = 64
    canvas: int = 32


class TiedAttention(Attention):
    """Of a full layer: its values are its keys before their norm and rotation."""

    def __init__(self, shape: Shape, layer: int) -> None:
        super().__init__(shape, layer)
        del self.v_proj

    def projected(self, x: Tensor) -> KeysValues:
        keys = self.k_proj(x)
        return keys, keys


class Router(nn.Module):
    """Which experts a token goes to, and how much of each it takes."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.chosen = shape.chosen
        self.norm = Norm(shape.hidden, None, shape.eps)
        self.proj = nn.Linear(shape.hidden, shape.experts, bias=False)
        self.scale = nn.Parameter(torch.ones(shape.hidden))
        self.per_expert_scale = nn.Parameter(torch.ones(shape.experts))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Each expert's factor [..., experts], 0 for those not chosen; how uneven the choice is, 1 at its best."""
        scaled = self.norm(x) * self.scale * x.shape[-1] ** -0.5
        # Rounded scores would choose other experts than the file's.
        with torch.autocast("cpu", enabled=False):
            shares = F.linear(scaled.float(), self.proj.weight).softmax(-1)
        top, index = shares.topk(self.chosen, -1)
        factors = torch.zeros_like(shares).scatter(-1, index, top / top.sum(-1, keepdim=True))
        used = (factors.detach() > 0).float().flatten(0, -2).mean(0) / self.chosen
        uneven = (used * shares.flatten(0, -2).mean(0)).sum() * shares.shape[-1]
        return factors * self.per_expert_scale, uneven


class Experts(nn.Module):
    """All experts at once, each times its factor: at this size that is faster than to gather each one's tokens.

    The fused tensors of a checkpoint, their first two axes taken together: an optimizer of matrices can train them.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.count, self.width = shape.experts, shape.expert_width
        self.gate_up_proj = nn.Parameter(torch.empty(shape.experts * 2 * self.width, shape.hidden))
        self.down_proj = nn.Parameter(torch.empty(shape.experts * shape.hidden, self.width))

    def forward(self, x: Tensor, factors: Tensor) -> Tensor:
        gate, up = F.linear(x, self.gate_up_proj).unflatten(-1, (self.count, 2, self.width)).unbind(-2)
        inner = (F.gelu(gate, approximate="tanh") * up * factors[..., None]).flatten(-2)
        down = self.down_proj.unflatten(0, (self.count, -1)).transpose(0, 1).flatten(1)
        return F.linear(inner.to(x.dtype), down)


class Layer(nn.Module):
    """Attention, then the feed-forward and the experts side by side, between norms and added to the stream."""

    def __init__(self, shape: Shape, layer: int) -> None:
        super().__init__()
        self.self_attn = (TiedAttention if shape.kinds[layer] == FULL else Attention)(shape, layer)
        self.mlp, self.router, self.experts = Mlp(shape), Router(shape), Experts(shape)
        self.input_layernorm = Norm(shape.hidden, 1.0, shape.eps)
        self.post_attention_layernorm = Norm(shape.hidden, 0.5, shape.eps)
        self.pre_feedforward_layernorm = Norm(shape.hidden, 1.0, shape.eps)
        self.pre_feedforward_layernorm_2 = Norm(shape.hidden, 1.0, shape.eps)
        self.post_feedforward_layernorm_1 = Norm(shape.hidden, 1.0, shape.eps)
        self.post_feedforward_layernorm_2 = Norm(shape.hidden, 1.0, shape.eps)
        self.post_feedforward_layernorm = Norm(shape.hidden, 0.5, shape.eps)
        self.layer_scalar = nn.Parameter(torch.ones(1))  # the decoder's; the encoder has its own

    def keys_and_values(self, x: Tensor, cos: Tensor, sin: Tensor, dtype: torch.dtype) -> KeysValues:
        return self.self_attn.keys_and_values(self.input_layernorm(x), cos, sin, dtype)

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor, scalar: Tensor, before: KeysValues | None
    ) -> tuple[Tensor, KeysValues, Tensor]:
        """The stream after the layer, its own keys and values, how uneven its experts are used.

        before: keys and values that stand before its own.
        """
        a = self.input_layernorm(x)
        own = self.self_attn.keys_and_values(a, cos, sin, mask.dtype)
        k, v = own if before is None else (torch.cat((b, o), 2) for b, o in zip(before, own, strict=True))
        x = x + self.post_attention_layernorm(self.self_attn(a, cos, sin, mask, (k, v)))
        factors, uneven = self.router(x)
        dense = self.post_feedforward_layernorm_1(self.mlp(self.pre_feedforward_layernorm(x)))
        routed = self.post_feedforward_layernorm_2(self.experts(self.pre_feedforward_layernorm_2(x), factors))
        return (x + self.post_feedforward_layernorm(dense + routed)) * scalar, own, uneven


def start(layer: nn.Module) -> None:
    """Fresh matrices: what goes in and comes out is of one size."""
    for name, parameter in layer.named_parameters():
        if parameter.dim() == 2:
            # The router's scores are scaled down by the root of the width: they start at about 1 all the same.
            std = 1.0 if name.endswith("router.proj.weight") else 1 / math.sqrt(parameter.shape[1])
            nn.init.normal_(parameter, std=std)
