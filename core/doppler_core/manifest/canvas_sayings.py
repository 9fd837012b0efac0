"""What a checkpoint says about its canvas: config.json its length, generation_config.json how it is denoised.

The latter is the publisher's advice: it fills what a manifest leaves open, and contradicts nothing that one sets.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from doppler_core.manifest.sayings import CONFIG, Config, Saying, nested, text_config

GENERATION = "generation_config.json"
SECTION = "inference.diffusionGemma"

_SIZES = {
    "canvas_length": "canvasLength",
    "boi_token_id": "boiTokenId",
    "eoi_token_id": "eoiTokenId",
    "image_token_id": "imageTokenId",
}
_LOOP = {
    "max_denoising_steps": "maxDenoisingSteps",
    "max_new_tokens": "maxNewTokens",
    "t_min": "tMin",
    "t_max": "tMax",
    "confidence_threshold": "confidenceThreshold",
    "stability_threshold": "stabilityThreshold",
}
# What transformers takes where neither file says it.
_DEFAULTS: Mapping[str, Any] = {
    "canvasLength": 256,
    "maxDenoisingSteps": 48,
    "maxNewTokens": 256,
    "tMin": 0.4,
    "tMax": 0.8,
    "entropyBound": 0.1,
    "confidenceThreshold": 0.005,
    "stabilityThreshold": 1,
    "padTokenId": 0,
    "eosTokenIds": [1],
}


def canvas_says(config: Config) -> Iterator[Saying]:
    """What config.json says."""
    for key, name in _SIZES.items():
        if (value := config.get(key)) is not None:
            yield Saying(f"{SECTION}.{name}", value, f"{CONFIG}: {key}", value)


def canvas_defaults(config: Config, generation: Mapping[str, Any]) -> Iterator[Saying]:
    """What holds where a manifest leaves it open, the strongest first. In these files a null leaves it open too."""
    sampler = nested(generation, "sampler_config", f"{GENERATION}: ") or {}
    for key, name in _LOOP.items():
        yield _advice(name, generation.get(key), f"{GENERATION}: {key}")
    yield _advice("entropyBound", sampler.get("entropy_bound"), f"{GENERATION}: sampler_config.entropy_bound")
    text, where = text_config(config)
    for said, source in ((generation, f"{GENERATION}: "), (text, where)):
        end = said.get("eos_token_id")
        yield _advice("padTokenId", said.get("pad_token_id"), f"{source}pad_token_id")
        yield _advice("eosTokenIds", [end] if isinstance(end, int) else end, f"{source}eos_token_id")
    for name, value in _DEFAULTS.items():
        yield _advice(name, value, "default of diffusion_gemma")


def _advice(name: str, value: Any, source: str) -> Saying:
    return Saying(f"{SECTION}.{name}", value, source, value)
