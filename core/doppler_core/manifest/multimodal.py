"""`manifest.visionConfig` and `manifest.audioConfig`: the towers, in the checkpoint's own snake_case names."""

from typing import Literal

from pydantic import ConfigDict

from doppler_core.manifest.base import Count, Items, Positive, PositiveReal, Real, Section


class _TowerSection(Section):
    model_config = ConfigDict(alias_generator=None)


class VisionRope(_TowerSection):
    """`rope_parameters` of the vision tower: the base of its two-dimensional rotation."""

    rope_theta: PositiveReal


class VisionConfig(_TowerSection):
    """The vision tower: sizes, pixels of a patch side, patches of a pooled side, soft tokens of an image."""

    vision_architecture: Literal["gemma4"]
    hidden_size: Positive
    num_attention_heads: Positive
    num_hidden_layers: Count
    num_key_value_heads: Positive
    head_dim: Positive
    intermediate_size: Positive
    patch_size: Positive
    pooling_kernel_size: Positive
    position_embedding_size: Positive
    default_output_length: Positive
    rms_norm_eps: PositiveReal
    hidden_activation: Literal["gelu", "gelu_pytorch_tanh"]
    use_clipped_linears: bool
    standardize: bool
    rope_parameters: VisionRope


class AudioConfig(_TowerSection):
    """The audio tower: conformer sizes, block-local attention (frames left, right, per chunk), logit cap."""

    audio_architecture: Literal["gemma4"]
    num_hidden_layers: Positive
    hidden_size: Positive
    num_attention_heads: Positive
    conv_kernel_size: Positive
    subsampling_conv_channels: Items[Positive]
    output_proj_dims: Positive
    attention_context_left: Count
    attention_context_right: Count
    attention_chunk_size: Positive
    attention_logit_cap: PositiveReal
    attention_invalid_logits_value: Real
    residual_weight: Real
    rms_norm_eps: PositiveReal
    hidden_act: Literal["silu"]
    use_clipped_linears: bool
