"""How canvases are denoised, out of a resolved manifest: numbers where the manifest's fields may still be null."""

from dataclasses import dataclass, fields

from doppler_core.errors import PlanError
from doppler_core.manifest.model import Manifest

_WHERE = "inference.diffusionGemma"


@dataclass(frozen=True)
class CanvasSettings:
    """`inference.diffusionGemma` of a resolved manifest (manifest.diffusion says what each is)."""

    canvas_length: int
    max_denoising_steps: int
    max_new_tokens: int
    t_min: float
    t_max: float
    entropy_bound: float
    confidence_threshold: float
    stability_threshold: int
    pad_token_id: int
    eos_token_ids: tuple[int, ...]
    self_conditioning: bool


def canvas_settings(manifest: Manifest) -> CanvasSettings:
    """The settings; PlanError where the section is not there, or names what no checkpoint has filled in."""
    said = manifest.inference.diffusion_gemma
    if said is None:
        raise PlanError(
            f"{_WHERE} is null: the model type diffusion_gemma needs the section; write it, its numbers null where the "
            "checkpoint says them"
        )
    values = {one.name: getattr(said, one.name) for one in fields(CanvasSettings)}
    missing = sorted(name for name, value in values.items() if value is None)
    if missing:
        raise PlanError(
            f"{_WHERE}: {missing} are null; a plan needs a manifest resolved against its checkpoint"
        )
    return CanvasSettings(**values)
