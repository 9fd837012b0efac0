"""`inference.diffusionGemma`: block diffusion over a canvas of tokens."""

from typing import Annotated, Literal

from pydantic import Field

from doppler_core.manifest.base import Count, Items, Moderate, Positive, Real, Section

# A step's table and its noise count the steps that are left in 32 bits.
_Steps = Annotated[int, Field(ge=1, lt=2**32)]


class Router(Section):
    """How the router of the experts treats its input and its weights."""

    scale_hidden_states: bool
    normalize_top_k: bool
    per_expert_scale: bool


class DiffusionGemma(Section):
    """The denoising loop. A number that is null is the checkpoint's, or its publisher's default.

    canvas_length: tokens of a canvas; max_denoising_steps: at most, per canvas.
    t_min, t_max: temperature of the last and the first step.
    entropy_bound, confidence_threshold: nats.
    stability_threshold: steps without a change before an early stop; 0 = always stable.
    decoder_cache_mode: the canvas reads the encoder's keys and values, and writes none.
    """

    canvas_length: Positive | None
    max_denoising_steps: _Steps | None
    max_new_tokens: Positive | None
    t_min: Moderate | None
    t_max: Moderate | None
    entropy_bound: Moderate | None
    confidence_threshold: Real | None
    stability_threshold: Count | None
    pad_token_id: Count | None
    eos_token_ids: Items[Count] | None
    boi_token_id: Count | None
    eoi_token_id: Count | None
    image_token_id: Count | None
    self_conditioning: bool
    decoder_cache_mode: Literal["encoder_kv_readonly_canvas_concat"]
    router: Router
