"""The sections a conversion reads: `output`, `quantization`, `moeConfig`, `largeWeights`, and the identity."""

from typing import Literal

from pydantic import Field

from doppler_core.manifest.base import Dtype, Items, Name, Positive, Section
from doppler_core.manifest.multimodal import AudioConfig, VisionConfig

WeightType = Literal["q4k", "q8_0", "f16", "bf16", "f32"]
ExpertFormat = Literal["mixtral", "gpt-oss", "gemma4"]
Completeness = Literal["complete", "weights-ref"]


class Output(Section):
    """`output`: how the artifact is named, and whether only the language model is converted."""

    base_dir: Name | None
    model_base_id: Name | None
    text_only: bool | None = None
    fast: bool | None = None


class Quantization(Section):
    """`quantization`: the storage type of each role of tensor; null = as the checkpoint's file stores it.

    weights: matmuls and experts; norms, routers, biases and tensors under 1,024 values stay f16 or f32.
    embeddings, lm_head: the token tables; the head, and an embedding model's dense layers.
    vision, projector, audio: the towers; absent where the model has none.
    compute_precision: the activation type the weights were chosen for; session.compute must say the same.
    """

    weights: WeightType | None
    embeddings: WeightType | None
    lm_head: WeightType | None
    vision: WeightType | None = None
    projector: WeightType | None = None
    audio: WeightType | None = None
    compute_precision: Dtype
    q4k_layout: Literal["row"]


class MoeConfig(Section):
    """`moeConfig`: experts per layer, how many serve a token, how their tensors are packed."""

    num_experts: Positive
    num_experts_per_token: Positive
    expert_format: ExpertFormat
    expert_intermediate_size: Positive


class LargeWeights(Section):
    """`largeWeights`: tensors kept on the GPU whatever their size."""

    gpu_resident_overrides: Items[Name] | None = None


class ArtifactIdentity(Section):
    """`manifest.artifactIdentity`: which checkpoint, which converted bytes, which inference policy."""

    source_checkpoint_id: Name | None = None
    weight_pack_id: Name | None = None
    manifest_variant_id: Name | None = None
    artifact_completeness: Completeness | None = None


class Published(Section):
    """`manifest`: what the artifact says of itself beside its numerics."""

    artifact_identity: ArtifactIdentity = Field(default_factory=ArtifactIdentity)
    vision_config: VisionConfig | None = None
    audio_config: AudioConfig | None = None
