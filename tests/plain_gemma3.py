"""Gemma 3 once more, in plain NumPy: a whole text at once, no cache, no plan. What real weights are held against.

Takes a checkpoint's tensors and config.json, whose norms are stored with their 1 (a GGUF's); gives logits in f32.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from doppler_core.weights.storage import to_f32
from doppler_core.weights.tensor import Tensor

Array = npt.NDArray[np.float32]
_ROWS = 16384  # of the token table that are expanded at a time


def next_logits(tensors: Mapping[str, Tensor], config: Mapping[str, Any], ids: Sequence[int]) -> Array:
    """The logits of the token behind `ids`, [vocabulary]."""

    def weight(name: str) -> Array:
        return to_f32(tensors[name]).reshape(tensors[name].shape)

    table, eps = tensors["model.embed_tokens.weight"], float(config["rms_norm_eps"])
    x = np.concatenate([to_f32(table, row, row + 1).reshape(1, -1) for row in ids])
    x = x * np.float32(x.shape[1] ** 0.5)
    for layer, kind in enumerate(config["layer_types"]):
        at = f"model.layers.{layer}."
        y = _norm(x, weight(at + "input_layernorm.weight"), eps)
        y = _attention(y, lambda name, at=at: weight(f"{at}self_attn.{name}.weight"), config, kind)
        x = x + _norm(y, weight(at + "post_attention_layernorm.weight"), eps)
        y = _norm(x, weight(at + "pre_feedforward_layernorm.weight"), eps)
        gate, up = (y @ weight(f"{at}mlp.{name}_proj.weight").T for name in ("gate", "up"))
        y = (_gelu(gate) * up) @ weight(at + "mlp.down_proj.weight").T
        x = x + _norm(y, weight(at + "post_feedforward_layernorm.weight"), eps)
    last = _norm(x[-1], weight("model.norm.weight"), eps)
    blocks = range(0, table.rows, _ROWS)
    return np.concatenate(
        [
            to_f32(table, first, min(first + _ROWS, table.rows)).reshape(-1, len(last)) @ last
            for first in blocks
        ]
    )


def _attention(x: Array, weight: Any, config: Mapping[str, Any], kind: str) -> Array:
    sliding, width, eps = kind == "sliding_attention", int(config["head_dim"]), float(config["rms_norm_eps"])
    theta = float(config["rope_local_base_freq" if sliding else "rope_theta"])
    q, k, v = ((x @ weight(f"{name}_proj").T).reshape(len(x), -1, width) for name in "qkv")
    q = _turned(_norm(q, weight("q_norm"), eps), theta)
    k = _turned(_norm(k, weight("k_norm"), eps), theta)
    back = np.arange(len(x))[:, None] - np.arange(len(x))
    seen = (back >= 0) & (back < int(config["sliding_window"]) if sliding else True)
    out = np.empty_like(q)
    for head in range(q.shape[1]):
        shared = head * k.shape[1] // q.shape[1]
        scores = q[:, head] @ k[:, shared].T * np.float32(int(config["query_pre_attn_scalar"]) ** -0.5)
        scores = np.where(seen, scores, np.float32(-np.inf))
        share = np.exp(scores - scores.max(1, keepdims=True))
        out[:, head] = share / share.sum(1, keepdims=True) @ v[:, shared]
    return out.reshape(len(x), -1) @ weight("o_proj").T


def _turned(x: Array, theta: float) -> Array:
    half = x.shape[-1] // 2
    angle = np.arange(len(x))[:, None] * theta ** (-np.arange(half) / half)
    cos, sin = (part.astype(np.float32)[:, None] for part in (np.cos(angle), np.sin(angle)))
    first, second = x[..., :half], x[..., half:]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], -1)


def _norm(x: Array, weight: Array, eps: float) -> Array:
    normed: Array = x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(eps)) * weight
    return normed


def _gelu(x: Array) -> Array:
    inner = np.float32((2 / np.pi) ** 0.5) * (x + np.float32(0.044715) * x**3)
    out: Array = x / 2 * (1 + np.tanh(inner))
    return out
