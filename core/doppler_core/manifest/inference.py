"""`inference`: the numerics of a forward pass. In a nullable field null means: as the checkpoint says."""

from typing import Literal

from doppler_core.manifest.base import Count, Items, Positive, PositiveReal, Section
from doppler_core.manifest.diffusion import DiffusionGemma
from doppler_core.manifest.head import OutputHead
from doppler_core.manifest.rope import Rope

LayerType = Literal["full_attention", "sliding_attention"]


class Attention(Section):
    """`inference.attention`.

    query_pre_attn_scalar: scores are scaled by its inverse square root.
    attn_logit_softcapping: c * tanh(scores / c) before the mask; None = off.
    sliding_window: tokens W of the sliding layers. Causal: key k is seen by query q if q - W < k <= q.
        Bidirectional: |q - k| <= W / 2.
    query_key_norm, value_norm: RMSNorm per head before rotation; the value's has no weight.
    """

    query_pre_attn_scalar: PositiveReal | None
    attn_logit_softcapping: PositiveReal | None
    sliding_window: Positive | None
    query_key_norm: bool
    value_norm: bool
    causal: bool | None
    attention_bias: bool | None
    attention_output_gate: bool


class Normalization(Section):
    """`inference.normalization`: RMSNorm's epsilon, whether it multiplies by 1 + weight, and where it stands."""

    rms_norm_eps: PositiveReal | None
    rms_norm_weight_offset: bool | None
    post_attention_norm: bool
    pre_feedforward_norm: bool
    post_feedforward_norm: bool


class Ffn(Section):
    """`inference.ffn`: "gelu" and "geglu" are the tanh form, "silu" and "swiglu" the sigmoid form.

    branch_mode: "auto" = experts where the layer has a router, else dense.
    use_double_wide_mlp: the layers that share K and V are twice as wide.
    swiglu_limit: clamp of the gate; None = off.
    """

    activation: Literal["gelu", "geglu", "silu", "swiglu"] | None
    gated_activation: bool
    branch_mode: Literal["auto", "dense", "moe", "dense_plus_moe"]
    use_double_wide_mlp: bool | None
    swiglu_limit: PositiveReal | None


class LayerPattern(Section):
    """`inference.layerPattern`: which layers attend fully.

    type: "every_n": layer i is full if (i - offset) % period == 0; "alternating": the even or the odd ones are;
        "custom": as layer_types lists; "uniform": all are.
    residual_branch_scale: factor on each branch before it is added.
    """

    type: Literal["custom", "every_n", "alternating", "uniform"] | None
    global_pattern: Literal["even", "odd"] | None
    period: Positive | None
    offset: Count | None
    layer_types: Items[LayerType] | None
    residual_branch_scale: PositiveReal


class ChatTemplate(Section):
    """`inference.chatTemplate`: the form of a conversation, if the model holds one."""

    type: Literal["gemma", "gemma4", "llama3", "gpt-oss", "chatml", "qwen", "translategemma"] | None
    enabled: bool


class Inference(Section):
    """`inference`."""

    attention: Attention
    normalization: Normalization
    ffn: Ffn
    rope: Rope
    output: OutputHead
    layer_pattern: LayerPattern
    chat_template: ChatTemplate
    supports_embedding: bool | None = None
    supports_transcription: bool | None = None
    supports_vision: bool | None = None
    diffusion_gemma: DiffusionGemma | None = None
