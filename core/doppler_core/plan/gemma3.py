"""The Gemma 3 text stack as ops: the order of a block comes from the architecture, its kernels from the manifest.

Formulas and order: Gemma 3 as published (transformers' Gemma3TextModel), bidirectional for EmbeddingGemma.
    x = embed(id) * sqrt(hidden)
    block: x += norm(o_proj(attention(rope(norm(q)), rope(norm(k)), v)));  x += norm(down(gelu(gate) * up))
"""

import math

from doppler_core.errors import PlanError
from doppler_core.manifest.model import Manifest
from doppler_core.plan.builder import Builder
from doppler_core.plan.layers import layer_types
from doppler_core.plan.op import Constant, Scalar, Value
from doppler_core.plan.sizes import given, sizes


def embed(build: Builder, manifest: Manifest) -> Value:
    """The scaled rows of the embedding table, [T, hidden]."""
    architecture, output = sizes(manifest), manifest.inference.output
    table = build.names.tensor("embed", None)
    expected = (architecture.vocab_size, architecture.hidden_size)
    if table.shape != expected:
        raise PlanError(
            f"{table.name}: expected shape {list(expected)} (architecture), found {list(table.shape)}"
        )
    scale = math.sqrt(architecture.hidden_size) if output.scale_embeddings else output.embedding_scale or 1.0
    return build.emit(
        "gather",
        "embed",
        None,
        [],
        ("T", architecture.hidden_size),
        weights=[table],
        params={"columns": architecture.hidden_size, "scale": scale},
    )


def blocks(build: Builder, manifest: Manifest, x: Value) -> Value:
    """All blocks and the final norm, [T, hidden] -> [T, hidden]."""
    norm = _norm_params(manifest)
    for layer, kind in enumerate(layer_types(manifest)):
        x = _attention(build, manifest, layer, kind == "sliding_attention", x, norm)
        x = _feed_forward(build, manifest, layer, x, norm)
    return build.norm("final_norm", None, x, norm)


def _norm_params(manifest: Manifest) -> dict[str, Scalar]:
    normalization = manifest.inference.normalization
    offset = 1.0 if normalization.rms_norm_weight_offset else 0.0
    return {"eps": given(normalization.rms_norm_eps, "normalization.rmsNormEps"), "offset": offset}


def _attention(
    build: Builder, manifest: Manifest, layer: int, sliding: bool, x: Value, norm: dict[str, Scalar]
) -> Value:
    """x + norm(attention(norm(x)))."""
    architecture, attention = sizes(manifest), manifest.inference.attention
    heads, kv_heads, width = (
        architecture.num_attention_heads,
        architecture.num_key_value_heads,
        architecture.head_dim,
    )
    a = build.norm("input_norm", layer, x, norm)
    q = build.matmul("q_proj", layer, a)
    k = build.matmul("k_proj", layer, a)
    v = build.matmul("v_proj", layer, a)
    for value, role, count in ((q, "q_proj", heads), (k, "k_proj", kv_heads), (v, "v_proj", kv_heads)):
        if value.columns != count * width:
            raise PlanError(
                f"layers.{layer}.{role}: expected {count} heads of {width} = {count * width} outputs "
                f"(architecture), found {value.columns}"
            )
    if attention.query_key_norm:
        q = build.norm("q_norm", layer, q, norm, note="attention.queryKeyNorm")
        k = build.norm("k_norm", layer, k, norm, note="attention.queryKeyNorm")
    table = _rope_table(manifest, sliding)
    q = _rope(build, "rope_q", layer, q, table, heads, width)
    k = _rope(build, "rope_k", layer, k, table, kv_heads, width)
    mixed = build.emit(
        "attention",
        "attention",
        layer,
        [q, k, v],
        q.shape,
        params={
            "heads": heads,
            "kv_heads": kv_heads,
            "head_dim": width,
            "scale": given(attention.query_pre_attn_scalar, "attention.queryPreAttnScalar") ** -0.5,
            "window": (attention.sliding_window or 0) if sliding else 0,
            "causal": bool(attention.causal),
            "softcap": attention.attn_logit_softcapping or 0.0,
        },
    )
    out = build.norm("post_attn_norm", layer, build.matmul("o_proj", layer, mixed), norm)
    return build.emit("residual", "attn_residual", layer, [x, out], x.shape, params={"columns": x.columns})


def _feed_forward(build: Builder, manifest: Manifest, layer: int, x: Value, norm: dict[str, Scalar]) -> Value:
    """x + norm(down(gelu(gate(norm(x))) * up(norm(x))))."""
    f = build.norm("pre_feedforward_norm", layer, x, norm, note="normalization.preFeedforwardNorm")
    gate = build.matmul("gate_proj", layer, f)
    up = build.matmul("up_proj", layer, f)
    width = sizes(manifest).intermediate_size
    for value, role in ((gate, "gate_proj"), (up, "up_proj")):
        if value.columns != width:
            raise PlanError(
                f"layers.{layer}.{role}: expected {width} outputs (architecture.intermediateSize), found {value.columns}"
            )
    h = build.emit("gelu", "activation", layer, [gate, up], gate.shape, params={"columns": gate.columns})
    h = build.matmul("down_proj", layer, h)
    h = build.norm("post_feedforward_norm", layer, h, norm, note="normalization.postFeedforwardNorm")
    return build.emit("residual", "ffn_residual", layer, [x, h], x.shape, params={"columns": x.columns})


def _rope(build: Builder, role: str, layer: int, x: Value, table: Constant, heads: int, width: int) -> Value:
    return build.emit(
        "rope", role, layer, [x], x.shape, constants=[table], params={"heads": heads, "head_dim": width}
    )


def _rope_table(manifest: Manifest, sliding: bool) -> Constant:
    """The cos and sin table of a layer type: sliding layers have a theta and a scaling of their own."""
    rope, architecture = manifest.inference.rope, sizes(manifest)
    theta = rope.rope_local_theta if sliding and rope.rope_local_theta is not None else rope.rope_theta
    factor = rope.rope_local_scaling_factor if sliding else rope.rope_scaling_factor
    # No text is longer than maxTokens: the rest of the positions would be memory for nothing.
    positions = min(architecture.max_seq_len, manifest.text.max_tokens or architecture.max_seq_len)
    params: dict[str, Scalar] = {
        "positions": positions,
        "head_dim": architecture.head_dim,
        "theta": given(theta, "rope.ropeTheta"),
        "scaling_factor": factor,
    }
    name = f"rope({theta:g})" if factor == 1 else f"rope({theta:g}, positions / {factor:g})"
    return Constant(name, "rope", (positions, architecture.head_dim // 2, 2), params)
