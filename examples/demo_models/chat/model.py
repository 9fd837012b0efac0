"""Gemma 4's text architecture in plain torch, small enough to train on two CPU cores.

Takes token ids with their positions and masks, gives the last hidden states. It has what Gemma 4 E2B has: inputs per
layer, layers that reuse an earlier one's keys and values, both head dims, both rotations. Parameter names are those of
a checkpoint. It knows nothing of text or files. Formulas: Hugging Face transformers, `Gemma4ForCausalLM`.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SLIDING, FULL = "sliding_attention", "full_attention"


@dataclass(frozen=True)
class Shape:
    vocab: int = 1280
    hidden: int = 192
    intermediate: int = 384
    kinds: tuple[str, ...] = (SLIDING, FULL, SLIDING, FULL, FULL, FULL)
    shared: int = 1  # last layers, without keys and values of their own
    heads: int = 4
    kv_heads: int = 4
    head_dim: int = 32
    full_head_dim: int = 64
    per_layer: int = 32
    window: int = 64
    theta_sliding: float = 1e4
    theta_full: float = 1e6
    rotated: float = 0.25  # share of the head's pairs that a full layer rotates
    softcap: float = 30.0
    eps: float = 1e-6

    def dim(self, layer: int) -> int:
        return self.full_head_dim if self.kinds[layer] == FULL else self.head_dim

    def owns(self, layer: int) -> bool:
        """Whether a layer has keys and values of its own."""
        return layer < len(self.kinds) - self.shared


class Norm(nn.Module):
    """x / rms(x), times a weight if it has one."""

    def __init__(self, width: int, start: float | None = 1.0, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = None if start is None else nn.Parameter(torch.full((width,), start))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        y = x.float()
        y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + self.eps)
        return y if self.weight is None else y * self.weight


def _linear(inside: int, outside: int) -> nn.Linear:
    return nn.Linear(inside, outside, bias=False)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat((-high, low), -1) * sin


class Attention(nn.Module):
    """Grouped queries, norms on queries, keys and values, no scale."""

    def __init__(self, shape: Shape, layer: int) -> None:
        super().__init__()
        dim = shape.dim(layer)
        self.groups, self.dim = shape.heads // shape.kv_heads, dim
        # The norms are the scale: below 1 the softmax starts soft.
        start = 0.5 if shape.kinds[layer] == FULL else 0.7
        self.q_proj, self.o_proj = (
            _linear(shape.hidden, shape.heads * dim),
            _linear(shape.heads * dim, shape.hidden),
        )
        self.q_norm = Norm(dim, start, shape.eps)
        if shape.owns(layer):
            self.k_proj, self.v_proj = (_linear(shape.hidden, shape.kv_heads * dim) for _ in range(2))
            self.k_norm, self.v_norm = Norm(dim, start, shape.eps), Norm(dim, None, shape.eps)

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.k_proj(x), self.v_proj(x)

    def keys_and_values(
        self, x: Tensor, cos: Tensor, sin: Tensor, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        k, v = (y.unflatten(-1, (-1, self.dim)) for y in self.projected(x))
        k, v = _rotate(self.k_norm(k), cos, sin), self.v_norm(v)
        k, v = (y.repeat_interleave(self.groups, 2).transpose(1, 2).to(dtype) for y in (k, v))
        return k, v

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor, kv: tuple[Tensor, Tensor]) -> Tensor:
        q = _rotate(self.q_norm(self.q_proj(x).unflatten(-1, (-1, self.dim))), cos, sin)
        out = self.attended(q.transpose(1, 2).to(mask.dtype), *kv, mask)
        return self.o_proj(out.transpose(1, 2).flatten(2))

    def attended(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """One product after the other: the fused kernel takes three times as long to go back."""
        blocks = mask.dim() == 5
        if blocks:
            window = mask.shape[-2]
            q, k, v = q.unflatten(2, (-1, window)), _and_before(k, window), _and_before(v, window)
        scores = torch.matmul(q, k.transpose(-1, -2)).float() + mask
        out = torch.matmul(scores.softmax(-1).to(v.dtype), v)
        return out.flatten(2, 3) if blocks else out


def _and_before(x: Tensor, window: int) -> Tensor:
    """Blocks of a window's tokens, each behind the one before it: [rows, heads, blocks, 2 * window, dim]."""
    blocks = x.unflatten(2, (-1, window))
    return torch.cat((F.pad(blocks, (0, 0, 0, 0, 1, 0))[:, :, :-1], blocks), 3)


class Mlp(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = (_linear(shape.hidden, shape.intermediate) for _ in range(2))
        self.down_proj = _linear(shape.intermediate, shape.hidden)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.gelu(self.gate_proj(x), approximate="tanh") * self.up_proj(x))


class Layer(nn.Module):
    """Attention, feed-forward and the layer's own input, each between norms and added to the stream."""

    def __init__(self, shape: Shape, layer: int) -> None:
        super().__init__()
        self.self_attn, self.mlp = Attention(shape, layer), Mlp(shape)
        self.input_layernorm = Norm(shape.hidden, 1.0, shape.eps)
        self.post_attention_layernorm = Norm(shape.hidden, 0.5, shape.eps)
        self.pre_feedforward_layernorm = Norm(shape.hidden, 1.0, shape.eps)
        self.post_feedforward_layernorm = Norm(shape.hidden, 0.5, shape.eps)
        self.per_layer_input_gate = _linear(shape.hidden, shape.per_layer)
        self.per_layer_projection = _linear(shape.per_layer, shape.hidden)
        self.post_per_layer_input_norm = Norm(shape.hidden, 0.3, shape.eps)
        self.register_buffer("layer_scalar", torch.ones(1))

    def forward(
        self, x: Tensor, own: Tensor, cos: Tensor, sin: Tensor, mask: Tensor, kv: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The stream after the layer, and the keys and values it used: `kv`, or its own where that is None."""
        a = self.input_layernorm(x)
        kv = self.self_attn.keys_and_values(a, cos, sin, mask.dtype) if kv is None else kv
        x = x + self.post_attention_layernorm(self.self_attn(a, cos, sin, mask, kv))
        x = x + self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(x)))
        gated = F.gelu(self.per_layer_input_gate(x), approximate="tanh") * own
        return x + self.post_per_layer_input_norm(self.per_layer_projection(gated)), kv


class TextModel(nn.Module):
    """The stack without its head, which is the embedding."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        wide = len(shape.kinds) * shape.per_layer
        self.embed_tokens = nn.Embedding(shape.vocab, shape.hidden)
        self.embed_tokens_per_layer = nn.Embedding(shape.vocab, wide)
        self.per_layer_model_projection = _linear(shape.hidden, wide)
        self.per_layer_projection_norm = Norm(shape.per_layer, 1.0, shape.eps)
        self.layers = nn.ModuleList(Layer(shape, i) for i in range(len(shape.kinds)))
        self.norm = Norm(shape.hidden, 1.0, shape.eps)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                width = shape.per_layer if name.startswith("embed_tokens_per_layer") else parameter.shape[1]
                nn.init.normal_(parameter, std=1 / math.sqrt(width))

    def forward(self, ids: Tensor, positions: Tensor, masks: dict[str, Tensor]) -> Tensor:
        """ids, positions [rows, tokens]; masks, by kind of layer, [rows, 1, tokens, tokens] -> [rows, tokens, hidden]."""
        shape = self.shape
        rotations = {
            SLIDING: rotation(positions, shape.head_dim, shape.theta_sliding, 1.0),
            FULL: rotation(positions, shape.full_head_dim, shape.theta_full, shape.rotated),
        }
        x = self.embed_tokens(ids) * math.sqrt(shape.hidden)
        wide = (len(shape.kinds), shape.per_layer)
        context = (self.per_layer_model_projection(x) * shape.hidden**-0.5).unflatten(-1, wide)
        token = (self.embed_tokens_per_layer(ids) * math.sqrt(shape.per_layer)).unflatten(-1, wide)
        own = (self.per_layer_projection_norm(context) + token) * 2**-0.5
        kept: dict[str, tuple[Tensor, Tensor]] = {}
        for i, (kind, layer) in enumerate(zip(shape.kinds, self.layers, strict=True)):
            run = layer if torch.is_grad_enabled() else layer.forward  # the compiled form is for training
            kv = None if shape.owns(i) else kept[kind]
            x, kept[kind] = run(x, own[:, :, i], *rotations[kind], masks[kind], kv)
        return self.norm(x)


class CausalModel(nn.Module):
    """The text model under the name that a checkpoint gives it."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.model = TextModel(shape)

    def logits(self, hidden: Tensor) -> Tensor:
        return soft_capped(F.linear(hidden, self.model.embed_tokens.weight).float(), self.model.shape.softcap)


def soft_capped(logits: Tensor, cap: float) -> Tensor:
    return torch.tanh(logits / cap) * cap


def rotation(positions: Tensor, dim: int, theta: float, share: float) -> tuple[Tensor, Tensor]:
    """cos and sin [rows, tokens, 1, dim]; the pairs beyond the share stand still."""
    frequencies = theta ** -(torch.arange(0, dim, 2).float() / dim)
    frequencies[int(share * dim) // 2 :] = 0
    angles = positions[..., None].float() * frequencies
    angles = torch.cat((angles, angles), -1)[:, :, None]
    return angles.cos(), angles.sin()


def attention_masks(documents: Tensor, window: int, dtype: torch.dtype) -> dict[str, Tensor]:
    """What a token may look at: its own document, back to its beginning or to the window's. documents [rows, tokens].

    [rows, 1, tokens, tokens]; of a window, where whole ones fill the row, [rows, 1, blocks, window, 2 * window]: a block
    looks at itself and at the one before.
    """
    tokens = documents.shape[1]
    back = torch.arange(tokens)[:, None] - torch.arange(tokens)
    full = (documents[:, :, None] == documents[:, None, :]) & (back >= 0)
    if tokens % window:
        sliding = full & (back < window)
    else:
        back = torch.arange(window)[:, None] + window - torch.arange(2 * window)
        behind = F.pad(documents, (window, 0), value=-2).unfold(1, 2 * window, window)
        same = documents.unflatten(1, (-1, window))[..., None] == behind[:, :, None]
        sliding = same & (back >= 0) & (back < window)
    return {kind: _additive(seen, dtype) for kind, seen in ((SLIDING, sliding), (FULL, full))}


def _additive(seen: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.zeros(seen.shape, dtype=dtype).masked_fill_(~seen, -3e4)[:, None]
