"""The attention half of a Gemma block as ops, its kernels from the manifest.

    q, k = rope(norm(x Wq)), rope(norm(x Wk));  v = x Wv, in Gemma 4 norm(x Wv) without a weight
    x += norm(attention(q, k, v) Wo)
Formulas and order: Gemma 3 and Gemma 4 as published (transformers' Gemma3TextModel, Gemma4TextModel).
"""

from doppler_core.errors import PlanError
from doppler_core.plan.layers import Layer
from doppler_core.plan.op import Scalar, Value
from doppler_core.plan.rotation import rotate
from doppler_core.plan.sizes import given
from doppler_core.plan.stack import Stack

_SHARED = "the layer reads the keys and values of the last layer of its type that has some"
_KEYS = "the layer's values are its keys (architecture.attentionKEqV)"


def attend(stack: Stack, layer: Layer, x: Value) -> Value:
    """x + norm(attention(norm(x))). [R, hidden] -> [R, hidden]."""
    build, number = stack.build, layer.number
    a = build.norm("input_norm", number, x, stack.norm)
    mixed = _mix_within_step(stack, layer, a) if stack.states is None else _mix_cached(stack, layer, a)
    out = build.norm("post_attn_norm", number, build.matmul("o_proj", number, mixed), stack.norm)
    return build.residual("attn_residual", number, x, out)


def _mix_within_step(stack: Stack, layer: Layer, a: Value) -> Value:
    """Attention among the rows of the step, which holds whole sequences."""
    q, k, v = _queries_keys_values(stack, layer, a)
    params = {**_scores(stack, layer), "causal": bool(stack.manifest.inference.attention.causal)}
    return stack.build.emit("attention", "attention", layer.number, [q, k, v], q.shape, params=params)


def _mix_cached(stack: Stack, layer: Layer, a: Value) -> Value:
    """Attention over the state of the layer's source, after the layer's own keys and values have been put there."""
    assert stack.states is not None
    build, number, state = stack.build, layer.number, stack.states[layer.source]
    if layer.owns:
        q, k, v = _queries_keys_values(stack, layer, a)
        _store(stack, layer, k, v)
    else:
        for role in ("k_proj", "k_norm", "rope_k", "v_proj"):
            build.steps.void(role, number, _SHARED)
        projected = _project(stack, layer, "q_proj", a, layer.heads)
        q = rotate(stack, "rope_q", layer, _head_norm(stack, layer, "q_norm", projected), layer.heads)
    params = {**_scores(stack, layer), "capacity": state.capacity}
    note = "every row of the canvas sees all of it" if stack.canvas else ""
    if stack.canvas:
        params["canvas"] = True
    return build.emit("cached_attention", "attention", number, [q, state], q.shape, params=params, note=note)


def keep(stack: Stack, layer: Layer, x: Value, note: str) -> None:
    """Put the layer's keys and values into its state, and no more of the layer; `note` says why."""
    assert stack.states is not None
    a = stack.build.norm("input_norm", layer.number, x, stack.norm)
    k, v = _normed_keys_values(stack, layer, *_keys_values(stack, layer, a))
    _store(stack, layer, rotate(stack, "rope_k", layer, k, layer.kv_heads), v, note)


def _store(stack: Stack, layer: Layer, k: Value, v: Value, note: str = "") -> None:
    assert stack.states is not None
    state = stack.states[layer.number]
    size = {"columns": k.columns, "head_dim": layer.head_dim, "capacity": state.capacity}
    stack.build.emit(
        "store", "store", layer.number, [k, v, state], state, params={**size, "value_norm": False}, note=note
    )


def _queries_keys_values(stack: Stack, layer: Layer, a: Value) -> tuple[Value, Value, Value]:
    q = _project(stack, layer, "q_proj", a, layer.heads)
    k, v = _keys_values(stack, layer, a)
    q = _head_norm(stack, layer, "q_norm", q)
    k, v = _normed_keys_values(stack, layer, k, v)
    q = rotate(stack, "rope_q", layer, q, layer.heads)
    return q, rotate(stack, "rope_k", layer, k, layer.kv_heads), v


def _keys_values(stack: Stack, layer: Layer, a: Value) -> tuple[Value, Value]:
    k = _project(stack, layer, "k_proj", a, layer.kv_heads)
    if layer.values_are_keys:
        stack.build.steps.void("v_proj", layer.number, _KEYS)
        return k, k
    return k, _project(stack, layer, "v_proj", a, layer.kv_heads)


def _normed_keys_values(stack: Stack, layer: Layer, k: Value, v: Value) -> tuple[Value, Value]:
    k = _head_norm(stack, layer, "k_norm", k)
    if stack.manifest.inference.attention.value_norm:
        note = "attention.valueNorm"
        v = stack.build.norm("v_norm", layer.number, v, stack.norm, note, layer.head_dim, weighted=False)
    return k, v


def _project(stack: Stack, layer: Layer, role: str, a: Value, heads: int) -> Value:
    value = stack.build.matmul(role, layer.number, a)
    if value.columns != heads * layer.head_dim:
        raise PlanError(
            f"layers.{layer.number}.{role}: expected {heads} heads of {layer.head_dim} = {heads * layer.head_dim} outputs "
            f"(architecture), found {value.columns}"
        )
    return value


def _head_norm(stack: Stack, layer: Layer, role: str, x: Value) -> Value:
    if not stack.manifest.inference.attention.query_key_norm:
        return x
    return stack.build.norm(role, layer.number, x, stack.norm, "attention.queryKeyNorm", layer.head_dim)


def _scores(stack: Stack, layer: Layer) -> dict[str, Scalar]:
    attention = stack.manifest.inference.attention
    return {
        "heads": layer.heads,
        "kv_heads": layer.kv_heads,
        "head_dim": layer.head_dim,
        "scale": given(attention.query_pre_attn_scalar, "attention.queryPreAttnScalar") ** -0.5,
        "window": (attention.sliding_window or 0) if layer.sliding else 0,
        "softcap": attention.attn_logit_softcapping or 0.0,
    }
