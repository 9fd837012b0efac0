"""Manifests of models that make text: shipped ones, the templates, and what their checkpoints say for both."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from doppler_core.errors import ContradictionError
from doppler_core.manifest import load_manifest, manifest_json, resolve
from doppler_core.manifest.catalog import manifest_for, shipped_manifest, template_for
from doppler_core.manifest.model import Manifest
from doppler_core.manifest.standing import standings
from tests.checkpoint_configs import gemma3_it, gemma4_e2b, tiny

E2B = "gemma-4-e2b-it-q4k-ehf16-af32"


def template(architecture: str) -> dict[str, Any]:
    path = template_for([architecture])
    assert path is not None
    return dict(json.loads(path.read_text()))


def numerics(manifest: Manifest) -> dict[str, Any]:
    """What of a resolved manifest decides values, in one form: the layers as a list."""
    data = manifest_json(manifest)
    found = {name: copy.deepcopy(data[name]) for name in ("architecture", "inference")}
    del found["inference"]["layerPattern"], found["inference"]["chatTemplate"]
    return found


@pytest.mark.parametrize("precision", ["f16", "q8_0"])
@pytest.mark.parametrize("size", ["270m", "1b"])
def test_the_shipped_gemma_3_manifests_are_their_checkpoints_and_the_template_says_the_same(
    size: str, precision: str
) -> None:
    path = manifest_for(f"google/gemma-3-{size}-it", precision)
    assert path is not None
    shipped = resolve(load_manifest(path), gemma3_it(size), None).manifest
    filled = resolve(load_manifest(template("Gemma3ForCausalLM")), gemma3_it(size), None).manifest
    assert numerics(shipped) == numerics(filled)
    assert (shipped.model_type, shipped.quantization.weights) == ("causal", precision)
    assert shipped.execution.decode == filled.execution.decode
    for manifest in (shipped, filled):
        assert standings(manifest, "causal")  # every value is one that the model type takes


def test_f16_is_the_default_of_the_gemma_3_manifests() -> None:
    for size in ("270m", "1b"):
        path = manifest_for(f"google/gemma-3-{size}-it")
        assert path is not None
        assert path.stem == f"google-gemma-3-{size}-it-f16"


@pytest.mark.parametrize("architecture", ["Gemma4ForConditionalGeneration", "Gemma4ForCausalLM"])
def test_the_gemma_4_template_says_of_e2b_what_its_seed_says(architecture: str) -> None:
    seed = resolve(load_manifest(shipped_manifest(E2B)), gemma4_e2b(), None).manifest
    filled = resolve(load_manifest(template(architecture)), gemma4_e2b(), None).manifest
    expected = numerics(seed)
    assert expected["inference"]["rope"].pop("ropeInterleaved") is False  # the seed's, and null means it
    assert numerics(filled) == expected
    assert seed.architecture.num_kv_shared_layers == 20
    assert seed.inference.rope.rope_frequency_base_dim == 512


def test_only_the_gemma_3_config_of_a_gguf_file_has_norms_with_their_1() -> None:
    data = template("Gemma3ForCausalLM")
    config = tiny() | {"use_bidirectional_attention": False}
    for said, expected in (({}, True), ({"rms_norm_weight_offset": False}, False)):
        resolved = resolve(load_manifest(data), config | said, None).manifest
        assert resolved.inference.normalization.rms_norm_weight_offset is expected
    path = manifest_for("google/gemma-3-270m-it")
    assert path is not None
    with pytest.raises(
        ContradictionError, match=r"rmsNormWeightOffset: the manifest says true, .* says false"
    ):
        resolve(load_manifest(path), gemma3_it("270m") | {"rms_norm_weight_offset": False}, None)


def test_a_whole_rotation_is_null_and_a_part_of_a_head_is_said() -> None:
    data, config = template("Gemma4ForCausalLM"), gemma4_e2b()
    full = config["text_config"]["rope_parameters"]["full_attention"]
    full |= {"rope_type": "default", "partial_rotary_factor": 1.0}
    rope = resolve(load_manifest(data), config, None).manifest.inference.rope
    assert (rope.partial_rotary_factor, rope.rope_frequency_base_dim) == (None, None)


@pytest.mark.parametrize("name", ["gemma3-text", "gemma4-text"])
def test_a_template_names_no_kernel_that_no_step_uses(name: str) -> None:
    path = template_for([{"gemma3-text": "Gemma3ForCausalLM", "gemma4-text": "Gemma4ForCausalLM"}[name]])
    assert path is not None
    execution = load_manifest(Path(path)).execution
    assert {step.kernel for _, step in execution.steps()} == set(execution.kernels)
