"""Manifests of DiffusionGemma: the seed, the template, and what the checkpoint's two files say for both."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doppler_core.errors import ContradictionError, ManifestError
from doppler_core.manifest import load_manifest, manifest_json, resolve
from doppler_core.manifest.catalog import shipped_manifest, template_for
from doppler_core.manifest.diffusion import DiffusionGemma
from doppler_core.manifest.model import Manifest
from doppler_core.manifest.resolve import Resolved
from doppler_core.manifest.standing import standings
from tests.checkpoint_configs import diffusiongemma, diffusiongemma_generation, gemma4_e2b

SEED = "diffusiongemma-26b-a4b-it-q4k-ehf16-af16"
SECTION = "inference.diffusionGemma"


def seed() -> dict[str, Any]:
    return dict(json.loads(shipped_manifest(SEED).read_text()))


def template() -> dict[str, Any]:
    path = template_for(["DiffusionGemmaForBlockDiffusion"])
    assert path is not None
    return dict(json.loads(path.read_text()))


def resolved(data: dict[str, Any], generation: dict[str, Any] | None = None) -> Resolved:
    return resolve(load_manifest(data), diffusiongemma(), None, None, generation)


def canvas(manifest: Manifest) -> DiffusionGemma:
    assert manifest.inference.diffusion_gemma is not None
    return manifest.inference.diffusion_gemma


def test_the_template_says_of_the_model_what_its_seed_says() -> None:
    ours, theirs = (manifest_json(resolved(data).manifest) for data in (template(), seed()))
    # The template leaves to defaults what the seed writes down: false, and the ends that a generation config names.
    assert theirs["inference"]["rope"].pop("ropeInterleaved") is False
    assert ours["inference"]["diffusionGemma"].pop("eosTokenIds") == [1]
    assert theirs["inference"]["diffusionGemma"].pop("eosTokenIds") == [1, 106, 50]
    for data in (ours, theirs):
        del data["inference"]["chatTemplate"]
        for name in ("supportsEmbedding", "supportsTranscription", "supportsVision"):
            data["inference"].pop(name, None)
    assert ours["inference"] == theirs["inference"]
    assert (ours["architecture"], ours["moeConfig"]) == (theirs["architecture"], theirs["moeConfig"])
    assert ours["modelType"] == theirs["modelType"] == "diffusion_gemma"


@pytest.mark.parametrize("data", [seed(), template()], ids=["seed", "template"])
def test_every_value_is_one_that_the_model_type_takes(data: dict[str, Any]) -> None:
    manifest = resolved(data).manifest
    assert standings(manifest, "diffusion_gemma")
    assert manifest.architecture.attention_k_eq_v is True  # no key of the config says it


def test_nulls_are_what_the_generation_config_says() -> None:
    found = resolved(template(), diffusiongemma_generation())
    loop = canvas(found.manifest)
    assert (loop.canvas_length, loop.max_denoising_steps, loop.max_new_tokens) == (256, 32, 512)
    assert (loop.t_min, loop.t_max, loop.entropy_bound) == (0.3, 0.9, 0.2)
    assert (loop.confidence_threshold, loop.stability_threshold) == (0.01, 2)
    assert (loop.pad_token_id, loop.eos_token_ids) == (0, (1, 106, 50))
    sources = {item.path: item.source for item in found.resolutions}
    assert sources[f"{SECTION}.entropyBound"] == "generation_config.json: sampler_config.entropy_bound"
    assert sources[f"{SECTION}.canvasLength"] == "config.json: canvas_length"
    assert sources["moeConfig.numExperts"] == "config.json: text_config.num_experts"


def test_nulls_of_the_generation_config_are_the_publishers_defaults() -> None:
    config = diffusiongemma()
    config["text_config"] |= {"eos_token_id": 7, "pad_token_id": 3}
    silent: dict[str, Any] = dict.fromkeys(diffusiongemma_generation())
    found = resolve(load_manifest(template()), config, None, None, silent)
    loop = canvas(found.manifest)
    assert (loop.max_denoising_steps, loop.t_min, loop.t_max, loop.entropy_bound) == (48, 0.4, 0.8, 0.1)
    assert (loop.pad_token_id, loop.eos_token_ids) == (3, (7,))
    sources = {item.path: item.source for item in found.resolutions}
    assert sources[f"{SECTION}.tMin"] == "default of diffusion_gemma"
    assert sources[f"{SECTION}.eosTokenIds"] == "config.json: text_config.eos_token_id"


def test_what_a_manifest_sets_beats_the_publishers_advice_and_not_the_canvas_of_the_checkpoint() -> None:
    loop = canvas(resolved(seed(), diffusiongemma_generation()).manifest)
    assert (loop.max_denoising_steps, loop.t_min, loop.stability_threshold) == (48, 0.4, 1)
    data = seed()
    data["inference"]["diffusionGemma"]["canvasLength"] = 128
    with pytest.raises(
        ContradictionError, match=r"canvasLength: the manifest says 128, .*canvas_length says 256"
    ):
        resolved(data)


@pytest.mark.parametrize(
    ("name", "value", "key"),
    [
        ("numExperts", 64, "num_experts says 128"),
        ("numExpertsPerToken", 2, "top_k_experts says 8"),
        ("expertIntermediateSize", 512, "moe_intermediate_size says 704"),
        ("expertFormat", "mixtral", 'model_type says "diffusion_gemma_text"'),
    ],
)
def test_experts_that_the_checkpoint_contradicts_are_an_error(name: str, value: Any, key: str) -> None:
    data = seed()
    data["moeConfig"][name] = value
    with pytest.raises(ContradictionError) as caught:
        resolved(data)
    assert f"moeConfig.{name}: the manifest says" in str(caught.value)
    assert key in str(caught.value)


def test_a_gemma_4_has_experts_where_its_config_enables_them() -> None:
    path = template_for(["Gemma4ForCausalLM"])
    assert path is not None
    sizes = {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 32}
    for enabled in (True, False):
        config = gemma4_e2b()
        config["text_config"] |= {"enable_moe_block": enabled, **sizes}
        found = resolve(load_manifest(path), config, None).manifest.moe_config
        assert (found is not None) == enabled
        if found is not None:
            assert (found.num_experts, found.num_experts_per_token, found.expert_intermediate_size) == (
                4,
                2,
                32,
            )
            assert found.expert_format == "gemma4"


def test_a_key_that_is_present_and_null_keeps_the_classes_default_out() -> None:
    config = diffusiongemma()
    config["text_config"]["final_logit_softcapping"] = None
    manifest = resolve(load_manifest(template()), config, None).manifest
    assert manifest.inference.output.final_logit_softcapping is None
    del config["text_config"]["final_logit_softcapping"]
    manifest = resolve(load_manifest(template()), config, None).manifest
    assert manifest.inference.output.final_logit_softcapping == 30


@pytest.mark.parametrize(
    ("section", "name", "value", "says"),
    [
        ("inference.diffusionGemma", "tMin", 0.8, "tMin: expected less than tMax 0.8, found 0.8"),
        ("inference.diffusionGemma", "eosTokenIds", [], "eosTokenIds: expected at least one token id"),
        ("inference.diffusionGemma", "decoderCacheMode", "copy", "decoderCacheMode: expected"),
        ("inference.diffusionGemma", "canvasLength", 0, "canvasLength: expected"),
        (
            "inference.diffusionGemma",
            "maxDenoisingSteps",
            0,
            "maxDenoisingSteps: expected a number of at least 1",
        ),
        (
            "inference.diffusionGemma",
            "maxDenoisingSteps",
            2**32,
            "maxDenoisingSteps: expected a number under",
        ),
        ("inference.diffusionGemma", "tMin", 1e-50, "tMin: expected a number of at least 1e-09"),
        ("inference.diffusionGemma", "tMax", 1e300, "tMax: expected a number of at most 1000000000"),
        ("inference.diffusionGemma", "entropyBound", 1e300, "entropyBound: expected a number of at most"),
        ("inference.diffusionGemma", "entropyBound", 0, "entropyBound: expected a number of at least"),
        ("moeConfig", "numExpertsPerToken", 0, "numExpertsPerToken: expected a number of at least 1"),
        ("moeConfig", "numExpertsPerToken", 129, "numExpertsPerToken: expected at most the 128"),
        ("architecture", "attentionKEqV", False, "attentionKEqV"),
        ("architecture", "numKvSharedLayers", 2, "numKvSharedLayers"),
        ("inference.attention", "causal", False, "causal"),
        ("inference.ffn", "branchMode", "dense", "branchMode"),
    ],
)
def test_a_value_that_can_not_be_is_an_error_that_names_it(
    section: str, name: str, value: Any, says: str
) -> None:
    data = copy.deepcopy(seed())
    target = data
    for key in section.split("."):
        target = target.setdefault(key, {})
    target[name] = value
    with pytest.raises(ManifestError) as caught:
        standings(load_manifest(data), "diffusion_gemma")
    assert says in str(caught.value)


@pytest.mark.parametrize(("name", "value"), [("eosTokenIds", [1, 262_144]), ("padTokenId", 262_144)])
def test_a_token_that_the_vocabulary_has_not_is_an_error(name: str, value: Any) -> None:
    data = seed()
    data["inference"]["diffusionGemma"][name] = value
    with pytest.raises(ManifestError, match=f"{name}: expected a token id below .* 262144, found 262144"):
        resolved(data)


def test_any_flag_of_the_architecture_may_be_false() -> None:
    data = template()
    data["inference"]["diffusionGemma"]["selfConditioning"] = False
    data["inference"]["diffusionGemma"]["router"] = dict.fromkeys(
        ("scaleHiddenStates", "normalizeTopK", "perExpertScale"), False
    )
    assert standings(resolved(data).manifest, "diffusion_gemma")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)


@given(
    st.sampled_from([seed(), template()]),
    st.sampled_from(
        [
            *(("config", key) for key in sorted(diffusiongemma())),
            *(("text", key) for key in sorted(diffusiongemma()["text_config"])),
            *(("generation", key) for key in sorted(diffusiongemma_generation())),
        ]
    ),
    JSON,
)
def test_any_value_in_the_checkpoints_files_resolves_or_is_a_manifest_error(
    data: dict[str, Any], place: tuple[str, str], value: Any
) -> None:
    config, generation = diffusiongemma(), diffusiongemma_generation()
    parts = {"config": config, "text": config["text_config"], "generation": generation}
    parts[place[0]][place[1]] = value
    try:
        manifest = resolve(load_manifest(data), config, None, None, generation).manifest
    except ManifestError as error:
        assert str(error)  # noqa: PT017
    else:
        assert canvas(manifest).canvas_length is not None


def test_the_template_names_no_kernel_that_no_step_uses() -> None:
    execution = load_manifest(template()).execution
    assert {step.kernel for _, step in execution.steps()} == set(execution.kernels)
