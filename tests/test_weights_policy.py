"""Roles and storage types: which tensor an artifact stores how."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from doppler_core.errors import ManifestError
from doppler_core.weights.policy import role, selected, storage_types
from doppler_core.weights.tensor import StorageType, Tensor

SEED = {
    "weights": "q4k",
    "embeddings": "f16",
    "lmHead": "f16",
    "vision": "f16",
    "projector": "f16",
    "audio": "f16",
}


def tensor(name: str, *shape: int, dtype: StorageType = "f32") -> Tensor:
    return Tensor(name, shape, dtype, np.zeros(0, np.uint8), Path("m.safetensors"))


def stored(name: str, *shape: int, dtype: StorageType = "f32", **changes: Any) -> StorageType:
    return storage_types(SEED | changes, {name: tensor(name, *shape, dtype=dtype)})[name]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("embed_tokens.weight", "embedding"),
        ("model.language_model.embed_tokens_per_layer.weight", "embedding"),
        ("lm_head.weight", "lm_head"),
        ("embedding_postprocessor.projections.0.weight", "lm_head"),
        ("embedding_postprocessor.projections.0.bias", "bias"),
        ("norm.weight", "norm"),
        ("layers.3.post_feedforward_layernorm_1.weight", "norm"),
        ("layers.3.self_attn.q_norm.weight", "norm"),
        ("layers.3.self_attn.q_proj.weight", "matmul"),
        ("layers.3.mlp.gate_proj.weight", "matmul"),
        ("model.language_model.layers.3.router.proj.weight", "router"),
        ("layers.3.mlp.gate.weight", "router"),
        ("model.layers.3.experts.gate_up_proj", "expert"),
        ("model.vision_tower.encoder.layers.0.self_attn.q_proj.linear.weight", "vision"),
        ("model.audio_tower.output_proj.bias", "audio"),
        ("model.embed_vision.embedding_projection.weight", "projector"),
    ],
)
def test_names_tell_the_role(name: str, wanted: str) -> None:
    assert role(name) == wanted


def test_the_seed_stores_embeddinggemma_as_its_name_says() -> None:
    assert stored("layers.0.mlp.down_proj.weight", 768, 1152) == "q4_k"
    assert stored("embed_tokens.weight", 262144, 768) == "f16"
    assert stored("embedding_postprocessor.projections.0.weight", 3072, 768) == "f16"
    assert stored("layers.0.input_layernorm.weight", 768) == "f32"
    assert stored("layers.0.input_layernorm.weight", 2560, dtype="bf16") == "f16"


@pytest.mark.parametrize("weights", ["q4k", "q8_0"])
def test_what_must_stay_exact_is_never_quantised(weights: str) -> None:
    for name, shape in [
        ("layers.0.self_attn.q_proj.bias", (4096,)),
        ("layers.0.router.proj.weight", (128, 2816)),
        ("layers.0.router.scale", (2816,)),
        ("layers.0.layer_scalar", (1,)),
        ("layers.0.small.weight", (31, 33)),
        ("layers.0.scales", (4096,)),
    ]:
        assert stored(name, *shape, weights=weights) == "f32"
        assert stored(name, *shape, dtype="bf16", weights=weights) == "f16"
    assert (
        stored("layers.0.experts.down_proj", 4, 32, 64, weights=weights)
        == {"q4k": "q4_k", "q8_0": "q8_0"}[weights]
    )


@pytest.mark.parametrize("weights", ["f32", "f16", "bf16"])
def test_float_weights_are_stored_as_asked_and_norms_no_narrower_than_their_source(weights: str) -> None:
    assert stored("layers.0.self_attn.q_proj.weight", 64, 64, weights=weights) == weights
    assert stored("norm.weight", 64, weights=weights) == "f32"
    assert stored("norm.weight", 64, dtype="bf16", weights=weights) == ("f32" if weights == "f32" else "f16")


def test_towers_take_their_own_types_and_keep_their_vectors_exact() -> None:
    linear, norm = "model.vision_tower.layers.0.mlp.up_proj.weight", "model.vision_tower.layers.0.norm.weight"
    assert stored(linear, 64, 64) == "f16"
    assert stored(linear, 64, 64, vision="q8_0") == "q8_0"
    assert stored(norm, 2048, vision="q8_0") == "f32"
    assert stored(linear, 64, 64, vision=None) == "f16"


def test_null_means_the_sources_type_and_the_head_follows_the_embeddings() -> None:
    assert stored("embed_tokens.weight", 64, 64, dtype="bf16", embeddings=None) == "bf16"
    assert stored("lm_head.weight", 64, 64, embeddings="q8_0", lmHead=None) == "q8_0"
    assert stored("layers.0.mlp.up_proj.weight", 64, 64, weights=None) == "f32"


def test_a_type_that_cannot_be_written_is_an_error_that_lists_those_that_can() -> None:
    with pytest.raises(
        ManifestError, match=r"quantization\.weights: 'q6k' can't be written; expected one of .*'q4k'"
    ):
        stored("layers.0.mlp.up_proj.weight", 64, 64, weights="q6k")


def test_text_only_leaves_the_towers_out() -> None:
    names = ["model.vision_tower.a", "model.language_model.b", "lm_head.weight", "model.embed_audio.c"]
    tensors = {name: tensor(name, 64, 64) for name in names}
    assert list(selected(tensors, text_only=False)) == names
    assert list(selected(tensors, text_only=True)) == ["model.language_model.b", "lm_head.weight"]
    bare = {name: tensor(name, 64, 64) for name in ["layers.0.mlp.up_proj.weight", "audio_tower.x"]}
    assert list(selected(bare, text_only=True)) == ["layers.0.mlp.up_proj.weight"]
