"""The shipped manifests are found by name, by checkpoint and precision, and templates by architecture."""

import json

import pytest

from doppler_core.errors import ModelNotFoundError
from doppler_core.manifest import load_manifest
from doppler_core.manifest.catalog import manifest_for, shipped, shipped_manifest, template_for

GEMMA = "google/embeddinggemma-300m"


def test_the_exact_manifest_is_the_default_of_embeddinggemma() -> None:
    default = manifest_for(GEMMA)
    assert default is not None
    assert default == manifest_for(GEMMA, "f16")
    quantization = load_manifest(default).quantization
    assert {quantization.weights, quantization.embeddings, quantization.lm_head} == {"f16"}


def test_a_precision_chooses_among_the_manifests_of_a_checkpoint() -> None:
    names = {precision: manifest_for(GEMMA, precision) for precision in ("f16", "q8_0", "q4k")}
    assert {path.stem for path in names.values() if path} == {
        "google-embeddinggemma-300m-f16",
        "google-embeddinggemma-300m-q8_0",
        "google-embeddinggemma-300m-q4k-ehf16-af32",
    }
    with pytest.raises(ModelNotFoundError, match=r"precision='f32'.*f16, q4k, q8_0"):
        manifest_for(GEMMA, "f32")


def test_a_manifest_that_names_no_checkpoint_is_that_of_the_one_in_the_catalog() -> None:
    assert manifest_for("google/diffusiongemma-26B-A4B-it") == shipped_manifest(
        "diffusiongemma-26b-a4b-it-q4k-ehf16-af16"
    )


def test_an_unknown_checkpoint_and_an_unknown_architecture_have_none() -> None:
    assert manifest_for("someone/else") is None
    assert template_for(["LlamaForCausalLM"]) is None
    assert template_for([]) is None


def test_a_template_leaves_everything_a_checkpoint_says_to_it() -> None:
    path = template_for(["Unknown", "Gemma3TextModel"])
    assert path is not None
    manifest = load_manifest(path)
    assert manifest.architecture.hidden_size is None
    assert manifest.inference.attention.causal is None
    assert manifest.manifest.artifact_identity.source_checkpoint_id is None


def test_every_shipped_manifest_has_its_file_s_name_and_loads() -> None:
    assert len(shipped()) == 9
    for entry in shipped():
        manifest = load_manifest(entry.path)
        assert manifest.output.model_base_id == entry.name
        assert manifest.manifest.artifact_identity.source_checkpoint_id in (entry.source, None)
        assert entry.source is not None
        assert shipped_manifest(entry.name) == entry.path


def test_a_misspelt_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(ModelNotFoundError, match='did you mean "google-embeddinggemma-300m-f16"'):
        shipped_manifest("google-embeddingemma-300m-f16")


def test_our_manifests_differ_from_the_seed_only_in_what_their_precision_needs() -> None:
    seed = json.loads(shipped_manifest("google-embeddinggemma-300m-q4k-ehf16-af32").read_text())
    for name in ("f16", "q8_0"):
        ours = json.loads(shipped_manifest(f"google-embeddinggemma-300m-{name}").read_text())
        assert ours["session"] == seed["session"]
        assert ours["quantization"] == seed["quantization"] | {"weights": name}
        roles = [step[0] for step in ours["execution"]["prefill"]]
        assert sorted(roles) == sorted(step[0] for step in seed["execution"]["prefill"])
        assert roles.index("post_attn_norm") < roles.index("attn_residual")
        inference = seed["inference"]
        inference["attention"]["slidingWindow"], inference["layerPattern"]["offset"] = 512, 5
        assert ours["inference"] == inference
