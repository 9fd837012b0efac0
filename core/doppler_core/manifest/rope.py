"""`inference.rope`: rotary positions. Plain names are the full-attention layers', `local` the sliding layers'."""

from typing import Literal

from doppler_core.manifest.base import Fraction, Items, Positive, PositiveReal, Section

Scaling = Literal["linear", "yarn", "longrope"]


class Rope(Section):
    """Angles pos * theta^(-2i/d), pairs (i, i + d/2) unless interleaved.

    partial_rotary_factor: part of the head that rotates; None = all of it.
    rope_frequency_base_dim: d of the exponent and of the pairing, where it is not the rotated width.
    rope_scaling_type: None = off; the factor then is 1. The yarn and longrope fields belong to their type.
    """

    rope_theta: PositiveReal | None
    rope_local_theta: PositiveReal | None
    rope_interleaved: bool | None = None
    mrope_interleaved: bool
    mrope_section: Items[Positive] | None
    partial_rotary_factor: Fraction | None
    rope_local_partial_rotary_factor: Fraction | None
    rope_frequency_base_dim: Positive | None
    rope_local_frequency_base_dim: Positive | None
    rope_scaling_type: Scaling | None
    rope_scaling_factor: PositiveReal
    rope_local_scaling_type: Scaling | None
    rope_local_scaling_factor: PositiveReal
    yarn_beta_fast: PositiveReal | None
    yarn_beta_slow: PositiveReal | None
    yarn_original_max_pos: Positive | None
    rope_local_yarn_beta_fast: PositiveReal | None
    rope_local_yarn_beta_slow: PositiveReal | None
    rope_local_yarn_original_max_pos: Positive | None
    longrope_short_factor: Items[PositiveReal] | None
    longrope_long_factor: Items[PositiveReal] | None
    longrope_original_max_pos: Positive | None
