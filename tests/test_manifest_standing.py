"""Every field has a standing for every model type; what a model type does not take is an error, never ignored."""

import json
from typing import Any

import pytest

from doppler_core.errors import ManifestError
from doppler_core.manifest import load_manifest, manifest_json
from doppler_core.manifest.catalog import shipped, shipped_manifest
from doppler_core.manifest.leaves import leaf_paths
from doppler_core.manifest.model import Manifest
from doppler_core.manifest.standing import TABLE, standings
from doppler_core.manifest.standing_inference import INFERENCE
from doppler_core.manifest.standing_rows import MODEL_TYPES
from doppler_core.manifest.standing_session import SESSION
from tests.manifest_fields import set_field

SEED = "google-embeddinggemma-300m-q4k-ehf16-af32"
TYPES = {
    "gemma-4-e2b-it-q4k-ehf16-af32": "causal",
    "diffusiongemma-26b-a4b-it-q4k-ehf16-af16": "diffusion_gemma",
}


def test_every_field_of_the_models_has_one_row_and_every_row_a_field() -> None:
    rows = [row.path for row in (*INFERENCE, *SESSION)]
    assert len(rows) == len(set(rows))
    assert set(rows) == set(leaf_paths(Manifest))


def test_every_row_has_a_rule_for_each_model_type_and_a_reason() -> None:
    for row in TABLE.values():
        assert set(row.rules) == set(MODEL_TYPES)
        assert row.reason
        for rule in row.rules.values():
            assert rule.standing != "must be off" or rule.only is not None


@pytest.mark.parametrize("entry", shipped(), ids=lambda entry: entry.name)
def test_every_shipped_manifest_has_only_values_that_its_model_type_takes(entry: Any) -> None:
    manifest = load_manifest(entry.path)
    assert standings(manifest, TYPES.get(entry.name) or manifest.model_type or "embedding")


def test_what_is_not_used_is_listed_by_section_with_its_reason() -> None:
    listed = {item.where: item for item in standings(load_manifest(shipped_manifest(SEED)), "embedding")}
    assert listed["session.decodeLoop"].standing == "not for this model type"
    assert listed["session.decodeLoop"].reason
    assert listed["session.perLayerInputs"].standing == "not for this model type"
    assert listed["session.useFlashPrefillAttention"].standing == "permission"
    assert listed["inference.attention.valueNorm"].standing == "must be off"
    assert listed["execution.decode"].standing == "not for this model type"
    assert "inference.attention.queryPreAttnScalar" not in listed
    assert "inference.rope.ropeTheta" not in listed


@pytest.mark.parametrize("name", TYPES | {SEED: "embedding"})
def test_every_value_is_used_or_listed(name: str) -> None:
    """No field of a manifest escapes: each leaf is implemented, null, or under a listed section."""
    manifest = load_manifest(shipped_manifest(name))
    model_type = TYPES.get(name, "embedding")
    listed = {item.where for item in standings(manifest, model_type)}
    data = manifest_json(manifest)
    for path, row in TABLE.items():
        if "*" in path or "[]" in path or row.rules[model_type].standing == "implemented":
            continue
        value: Any = data
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        parts = path.split(".")
        around = {".".join(parts[:count]) for count in range(1, len(parts) + 1)}
        assert value is None or around & listed, path


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("inference.attention.attentionOutputGate", True, "expects false, found true"),
        ("inference.attention.valueNorm", True, "expects false, found true"),
        ("inference.attention.causal", True, "expects false, found true"),
        ("inference.ffn.swigluLimit", 7, "expects null, found 7"),
        ("inference.ffn.activation", "silu", 'expects "gelu" or "geglu", found "silu"'),
        ("inference.normalization.postAttentionNorm", False, "expects true, found false"),
        ("inference.layerPattern.residualBranchScale", 0.5, "expects 1, found 0.5"),
        ("inference.output.embeddingPostprocessor.poolingMode", "last", 'expects "mean", found "last"'),
        ("inference.rope.partialRotaryFactor", 0.5, "expects null, found 0.5"),
        ("inference.supportsVision", True, "expects false, found true"),
        ("output.fast", True, "expects false, found true"),
    ],
)
def test_a_value_that_the_model_type_does_not_take_is_an_error(path: str, value: Any, expected: str) -> None:
    data: dict[str, Any] = json.loads(shipped_manifest(SEED).read_text())
    set_field(data, path, value)
    with pytest.raises(ManifestError) as caught:
        standings(load_manifest(data), "embedding")
    assert str(caught.value).startswith(f"{path}: the model type embedding {expected}; ")


def test_half_precision_activations_are_refused_with_the_reason() -> None:
    data: dict[str, Any] = json.loads(shipped_manifest(SEED).read_text())
    data["session"]["compute"]["defaults"]["activationDtype"] = "f16"
    data["quantization"]["computePrecision"] = "f16"
    with pytest.raises(ManifestError, match="65,504"):
        standings(load_manifest(data), "embedding")


def test_a_bias_is_refused_at_its_projection() -> None:
    data: dict[str, Any] = json.loads(shipped_manifest(SEED).read_text())
    head = data["inference"]["output"]["embeddingPostprocessor"]
    head["projections"][1]["biasTensor"] = "b"
    with pytest.raises(ManifestError, match=r"projections\[1\]\.biasTensor"):
        standings(load_manifest(data), "embedding")


def test_a_model_type_of_a_plugin_decides_itself() -> None:
    assert standings(load_manifest(shipped_manifest(SEED)), "mine") == ()
