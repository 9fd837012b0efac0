"""EmbeddingGemma's architecture in plain torch, small enough to train on two CPU cores.

Takes token ids and their mask, gives one unit vector per row. It is Gemma 3's text stack with attention in both
directions, the mean over all tokens, two dense layers and an L2 norm; parameter names are those of a checkpoint.
It knows nothing of text or files. Formulas: Hugging Face transformers, `Gemma3TextModel`.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# The attention and feed-forward branches start small beside the embedding (1 + w = 0.01): a bag of words.
BRANCH = -0.99


@dataclass(frozen=True)
class Shape:
    """Sizes of the demo model; the defaults are those of the bundled one."""

    vocab: int = 3072
    hidden: int = 128
    intermediate: int = 192
    layers: int = 6
    heads: int = 4
    kv_heads: int = 1
    head_dim: int = 32
    dense: int = 512
    window: int = 512
    full_every: int = 6
    theta_sliding: float = 10_000.0
    theta_full: float = 1_000_000.0
    eps: float = 1e-6

    def is_full(self, layer: int) -> bool:
        return layer % self.full_every == self.full_every - 1


class Norm(nn.Module):
    """RMS norm whose stored weight is the offset from one: y = x / rms(x) * (1 + w)."""

    def __init__(self, size: int, eps: float, start: float = 0.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((size,), start))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        x = x.float()
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * (1.0 + self.weight)


def linear(inputs: int, outputs: int) -> nn.Linear:
    return nn.Linear(inputs, outputs, bias=False)


def rotate(x: Tensor, theta: float) -> Tensor:
    """Rotary positions 0, 1, ... over x[batch, heads, tokens, d]; element i pairs with i + d/2."""
    half = x.shape[-1] // 2
    frequency = theta ** (-torch.arange(half, dtype=torch.float32) / half)
    angle = torch.arange(x.shape[-2], dtype=torch.float32)[:, None] * frequency
    cos, sin, first, second = angle.cos(), angle.sin(), x[..., :half], x[..., half:]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


class Attention(nn.Module):
    def __init__(self, shape: Shape, full: bool) -> None:
        super().__init__()
        self.shape, self.theta = shape, shape.theta_full if full else shape.theta_sliding
        self.q_proj = linear(shape.hidden, shape.heads * shape.head_dim)
        self.k_proj = linear(shape.hidden, shape.kv_heads * shape.head_dim)
        self.v_proj = linear(shape.hidden, shape.kv_heads * shape.head_dim)
        self.o_proj = linear(shape.heads * shape.head_dim, shape.hidden)
        self.q_norm, self.k_norm = Norm(shape.head_dim, shape.eps), Norm(shape.head_dim, shape.eps)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        rows, tokens, _ = x.shape

        def split(y: Tensor) -> Tensor:
            return y.view(rows, tokens, -1, self.shape.head_dim).transpose(1, 2)

        q = rotate(self.q_norm(split(self.q_proj(x))), self.theta)
        k = rotate(self.k_norm(split(self.k_proj(x))), self.theta)
        v = split(self.v_proj(x))
        # One plain product per group of heads: torch's fused attention is several times slower to train at this size.
        q = q.reshape(rows, self.shape.kv_heads, -1, self.shape.head_dim).to(v.dtype)
        scores = (q @ k.to(v.dtype).transpose(-1, -2)).float() * self.shape.head_dim**-0.5
        group = self.shape.heads // self.shape.kv_heads
        scores = scores.view(rows, -1, group, tokens, tokens) + mask
        mixed = (scores.softmax(-1).to(v.dtype).flatten(2, 3) @ v).view(rows, -1, tokens, self.shape.head_dim)
        out: Tensor = self.o_proj(mixed.transpose(1, 2).reshape(rows, tokens, -1))
        return out


class FeedForward(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = linear(shape.hidden, shape.intermediate)
        self.up_proj = linear(shape.hidden, shape.intermediate)
        self.down_proj = linear(shape.intermediate, shape.hidden)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(F.gelu(self.gate_proj(x), approximate="tanh") * self.up_proj(x))
        return out


class Layer(nn.Module):
    def __init__(self, shape: Shape, full: bool) -> None:
        super().__init__()
        self.full = full
        self.self_attn, self.mlp = Attention(shape, full), FeedForward(shape)
        self.input_layernorm = Norm(shape.hidden, shape.eps)
        self.pre_feedforward_layernorm = Norm(shape.hidden, shape.eps)
        self.post_attention_layernorm = Norm(shape.hidden, shape.eps, start=BRANCH)
        self.post_feedforward_layernorm = Norm(shape.hidden, shape.eps, start=BRANCH)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x + self.post_attention_layernorm(self.self_attn(self.input_layernorm(x), mask))
        out: Tensor = x + self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(x)))
        return out


class Encoder(nn.Module):
    """ids[rows, tokens], present[rows, tokens] (bool) -> unit vectors[rows, hidden], f32."""

    def __init__(self, shape: Shape, dropout: float = 0.0) -> None:
        super().__init__()
        self.shape, self.dropout = shape, dropout
        self.embed_tokens = nn.Embedding(shape.vocab, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape, shape.is_full(i)) for i in range(shape.layers))
        self.norm = Norm(shape.hidden, shape.eps)
        self.dense_in, self.dense_out = linear(shape.hidden, shape.dense), linear(shape.dense, shape.hidden)
        for weight in (p for name, p in self.named_parameters() if p.dim() == 2 and "embed" not in name):
            nn.init.normal_(weight, std=weight.shape[1] ** -0.5)

    @torch.no_grad()
    def start_as_word_bag(self, words: Tensor, rarity: Tensor) -> None:
        """Make the first output a mean of words[vocab, hidden - 1] (unit rows) weighted by rarity[vocab] (0..1).

        The final norm gives every token the same length. So a common token gets its length from the first
        element, which the dense pair (otherwise each other's inverse) leaves out.
        """
        share = rarity[:, None]
        self.embed_tokens.weight.copy_(torch.cat(((1.0 - share**2).sqrt(), share * words), dim=1))
        nn.init.orthogonal_(self.dense_in.weight)
        self.dense_in.weight[:, 0] = 0.0
        self.dense_out.weight.copy_(self.dense_in.weight.T)

    def hidden_states(self, ids: Tensor, present: Tensor, deep: bool = True) -> Tensor:
        """The final-norm output [rows, tokens, hidden], f32; not `deep`: of the embedding, without the layers."""
        x = self.embed_tokens(ids) * self.shape.hidden**0.5
        x = F.dropout(x, self.dropout, self.training)
        place = torch.arange(ids.shape[1])
        near = (place[:, None] - place).abs() <= self.shape.window // 2
        seen = present[:, None, None, None, :]
        everything, window = (
            torch.zeros(may.shape).masked_fill_(~may, -torch.inf) for may in (seen, seen & near)
        )
        for layer in self.layers if deep else ():
            x = layer(x, everything if layer.full else window)
        out: Tensor = self.norm(x)
        return out

    def forward(self, ids: Tensor, present: Tensor, deep: bool = True) -> Tensor:
        x, weight = self.hidden_states(ids, present, deep), present[..., None].float()
        pooled = (x * weight).sum(1) / weight.sum(1)
        return F.normalize(self.dense_out(self.dense_in(pooled)).float(), dim=-1)
