"""`Manifest`: all sections together. It knows the shape of a manifest, not its meaning for a model."""

from pydantic import Field

from doppler_core.manifest.base import Name, Section
from doppler_core.manifest.conversion import LargeWeights, MoeConfig, Output, Published, Quantization
from doppler_core.manifest.execution import Execution
from doppler_core.manifest.inference import Inference
from doppler_core.manifest.session import Session
from doppler_core.manifest.sizes import Architecture, Text


class Manifest(Section):
    """A model's manifest. Null in a nullable field means: as the checkpoint says; resolve() fills it.

    model_type: name of the model type that lowers it; None until resolved.
    """

    model_type: Name | None = None
    output: Output
    quantization: Quantization
    moe_config: MoeConfig | None = None
    inference: Inference
    session: Session
    execution: Execution
    large_weights: LargeWeights = Field(default_factory=LargeWeights)
    manifest: Published = Field(default_factory=Published)
    architecture: Architecture = Field(default_factory=Architecture)
    text: Text = Field(default_factory=Text)
