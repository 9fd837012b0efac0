"""Null means "as the checkpoint says", is filled from its files and listed; a contradiction shows both sides."""

import copy
import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doppler_core.errors import ContradictionError, ManifestError
from doppler_core.manifest import load_manifest, manifest_json, resolve
from doppler_core.manifest.catalog import manifest_for, shipped_manifest, template_for
from doppler_core.manifest.layer_pattern import full_layers, pattern_types
from doppler_core.manifest.model import Manifest
from doppler_core.manifest.standing import standings
from tests.checkpoint_configs import embeddinggemma, embeddinggemma_modules, tiny, tiny_modules
from tests.manifest_fields import set_field

SEED = "google-embeddinggemma-300m-q4k-ehf16-af32"
GEMMA = "google/embeddinggemma-300m"


def seed(**changes: Any) -> dict[str, Any]:
    """The shipped seed's JSON, with "a.b.c" fields changed (dots written as __)."""
    data: dict[str, Any] = json.loads(shipped_manifest(SEED).read_text())
    for path, value in changes.items():
        *sections, name = path.split("__")
        target = data
        for section in sections:
            target = target.setdefault(section, {})
        target[name] = value
    return data


def template() -> dict[str, Any]:
    path = template_for(["Gemma3TextModel"])
    assert path is not None
    return dict(json.loads(path.read_text()))


def full(manifest: Manifest) -> list[int]:
    layers = manifest.architecture.num_layers
    assert layers is not None
    types = pattern_types(manifest.inference.layer_pattern, layers)
    assert types is not None
    return full_layers(types)


@pytest.mark.parametrize("precision", ["f16", "q8_0", "q4k"])
def test_every_shipped_embeddinggemma_manifest_resolves_to_the_same_numerics(precision: str) -> None:
    path = manifest_for(GEMMA, precision)
    assert path is not None
    resolved = resolve(load_manifest(path), embeddinggemma(), embeddinggemma_modules()).manifest
    reference = resolve(load_manifest(template()), embeddinggemma(), embeddinggemma_modules()).manifest
    assert full(resolved) == full(reference) == [5, 11, 17, 23]
    assert resolved.inference.attention.sliding_window == 512
    for section in ("attention", "normalization", "ffn", "rope"):
        assert getattr(resolved.inference, section) == getattr(reference.inference, section)
    ours, theirs = (manifest.inference.output.embedding_postprocessor for manifest in (resolved, reference))
    assert ours == theirs
    assert resolved.architecture == reference.architecture
    assert resolved.text == reference.text
    assert resolved.text.dimensions == (768, 512, 256, 128)
    assert resolved.text.max_tokens == 2048
    assert resolved.text.prompts is not None
    assert resolved.text.prompts["query"] == "task: search result | query: "
    standings(resolved, "embedding")  # raises on a value that the model type does not take


def test_every_resolution_is_listed_with_its_source() -> None:
    before = load_manifest(seed())
    resolved = resolve(before, embeddinggemma(), embeddinggemma_modules())
    listed = {item.path: (item.value, item.source) for item in resolved.resolutions}
    assert listed["inference.attention.slidingWindow"] == (512, "config.json: sliding_window")
    assert listed["inference.layerPattern.offset"] == (5, "config.json: layer_types")
    assert listed["architecture.numLayers"] == (24, "config.json: num_hidden_layers")
    assert listed["text.dimensions"] == ([768, 512, 256, 128], "EmbeddingGemma's model card")
    # Taking the listed values out again gives the manifest that was resolved: nothing else changed.
    data = manifest_json(resolved.manifest)
    for path in listed:
        set_field(data, path, None)
    assert load_manifest({**data, "architecture": {}, "text": {}}) == load_manifest(
        seed(architecture={}, text={})
    )


def test_a_resolved_manifest_resolves_to_itself() -> None:
    once = resolve(load_manifest(template()), tiny(), tiny_modules()).manifest
    again = resolve(once, tiny(), tiny_modules())
    assert again.manifest == once
    assert again.resolutions == ()


def test_a_tiny_checkpoint_of_transformers_5_resolves_with_the_template() -> None:
    manifest = resolve(load_manifest(template()), tiny(), tiny_modules()).manifest
    rope = manifest.inference.rope
    assert (rope.rope_theta, rope.rope_local_theta, rope.rope_scaling_type) == (1e6, 1e4, None)
    assert full(manifest) == [1]
    assert manifest.inference.attention.causal is False
    assert manifest.text.dimensions == (64,)
    assert manifest.text.max_tokens == 512
    assert manifest.text.prompts == {}
    assert (manifest.text.add_bos, manifest.text.add_eos) == (True, True)
    assert manifest.inference.output.tie_word_embeddings is None  # an embedding has no head to tie


@pytest.mark.parametrize(
    ("remove", "expected"),
    [(["layer_types"], [5, 11, 17, 23]), (["_sliding_window_pattern"], [5, 11, 17, 23])],
)
def test_a_period_alone_and_a_list_alone_give_the_same_layers(remove: list[str], expected: list[int]) -> None:
    for data in (seed(), template()):
        config = embeddinggemma()
        for key in remove:
            del config[key]
        assert full(resolve(load_manifest(data), config, embeddinggemma_modules()).manifest) == expected


@pytest.mark.parametrize("types", [["full_attention"] * 4, ["sliding_attention"] * 4])
def test_layers_of_one_kind_fit_a_period_or_contradict_it(types: list[str]) -> None:
    config = embeddinggemma() | {"layer_types": types, "num_hidden_layers": 4}
    if types[0] == "sliding_attention":
        assert full(resolve(load_manifest(seed()), config, embeddinggemma_modules()).manifest) == []
    else:
        with pytest.raises(ContradictionError, match=r"full layers are \[0\].*\[0, 1, 2, 3\] of 4 layers"):
            resolve(load_manifest(seed()), config, embeddinggemma_modules())


def test_scaled_positions_come_with_their_factor() -> None:
    config = embeddinggemma() | {"rope_scaling": {"rope_type": "linear", "factor": 8.0}}
    rope = resolve(load_manifest(seed()), config, embeddinggemma_modules()).manifest.inference.rope
    assert (rope.rope_scaling_type, rope.rope_scaling_factor) == ("linear", 8)
    assert (rope.rope_local_scaling_type, rope.rope_local_scaling_factor) == (None, 1)


def test_a_value_set_in_the_manifest_wins_where_the_checkpoint_is_silent() -> None:
    config = embeddinggemma()
    del config["sliding_window"]  # the class's default is 4096
    data = seed(inference__attention__slidingWindow=1024)
    manifest = resolve(load_manifest(data), config, embeddinggemma_modules()).manifest
    assert manifest.inference.attention.sliding_window == 1024
    silent = resolve(load_manifest(seed()), config, embeddinggemma_modules())
    (item,) = [item for item in silent.resolutions if item.path == "inference.attention.slidingWindow"]
    assert (item.value, item.source) == (4096, "default of gemma3_text")


@pytest.mark.parametrize(
    ("change", "ours", "theirs"),
    [
        ({"inference__attention__slidingWindow": 1024}, "1024", "config.json: sliding_window says 512"),
        ({"inference__attention__queryPreAttnScalar": 64}, "64", "query_pre_attn_scalar says 256"),
        ({"inference__attention__causal": True}, "true", "use_bidirectional_attention says true"),
        ({"inference__attention__attentionBias": True}, "true", "attention_bias says false"),
        ({"inference__attention__attnLogitSoftcapping": 50}, "50", "attn_logit_softcapping says null"),
        ({"inference__normalization__rmsNormEps": 1e-5}, "1e-05", "rms_norm_eps says 1e-06"),
        ({"inference__ffn__activation": "silu"}, '"silu"', 'hidden_activation says "gelu_pytorch_tanh"'),
        ({"inference__rope__ropeTheta": 10000}, "10000", "rope_theta says 1000000.0"),
        ({"inference__rope__ropeLocalTheta": 1}, "1", "rope_local_base_freq says 10000.0"),
        (
            {"inference__rope__ropeScalingType": "linear", "inference__rope__ropeScalingFactor": 8},
            '"linear"',
            "rope_scaling says null",
        ),
        ({"architecture__numLayers": 12}, "12", "num_hidden_layers says 24"),
        ({"inference__layerPattern__offset": 0}, "[0, 6, 12, 18]", "[5, 11, 17, 23] of 24 layers"),
        ({"inference__layerPattern__period": 4}, "[1, 5, 9, 13, 17, 21]", "[5, 11, 17, 23] of 24 layers"),
        ({"text__prompts": {"query": "q: "}}, '{"query": "q: "}', "prompts says {"),
        ({"text__maxTokens": 512}, "512", "max_seq_length says 2048"),
        ({"inference__output__embeddingPostprocessor__poolingMode": "last"}, '"last"', '(poolingMode) says "mean"'),
        ({"inference__output__embeddingPostprocessor__normalize": None}, "null", '(normalize) says "l2"'),
        ({"inference__output__embeddingPostprocessor__projections": []}, "[]", '(projections) says [{"weightTensor"'),
    ],
)  # fmt: skip
def test_a_set_value_that_the_checkpoint_contradicts_is_an_error_that_shows_both(
    change: dict[str, Any], ours: str, theirs: str
) -> None:
    with pytest.raises(ContradictionError) as caught:
        resolve(load_manifest(seed(**change)), embeddinggemma(), embeddinggemma_modules())
    message = str(caught.value)
    assert ours in message
    assert theirs in message
    assert next(iter(change)).split("__")[1] in message


def test_all_contradictions_are_shown_at_once() -> None:
    path = manifest_for(GEMMA)
    assert path is not None
    with pytest.raises(ContradictionError) as caught:
        resolve(load_manifest(path), tiny(), tiny_modules())
    for name in ("queryPreAttnScalar", "slidingWindow", "embeddingPostprocessor.projections"):
        assert name in str(caught.value)


def test_spellings_of_one_activation_and_fields_of_other_model_types_contradict_nothing() -> None:
    config = embeddinggemma() | {"tie_word_embeddings": True, "final_logit_softcapping": 30}
    data = seed(inference__ffn__activation="geglu")
    assert (
        resolve(load_manifest(data), config, embeddinggemma_modules()).manifest.inference.ffn.activation
        == "geglu"
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"hidden_activation": "gelu"}, 'inference.ffn.activation: expected "gelu".*found "gelu_erf"'),
        ({"rope_scaling": {"rope_type": "dynamic"}}, 'ropeScalingType: expected "linear".*found "dynamic"'),
        ({"num_hidden_layers": "24"}, 'architecture.numLayers: expected a whole number, found "24"'),
        ({"num_hidden_layers": 2**40}, "architecture.numLayers: expected a number of at most 10000"),
        ({"layer_types": ["full_attention"] * 3}, "full layers are .* of 3 layers"),
        ({"num_key_value_heads": 2}, "numKeyValueHeads: expected a divisor of the 3"),
    ],
)
def test_a_checkpoint_value_that_no_manifest_can_have_is_an_error_with_its_path(
    change: dict[str, Any], expected: str
) -> None:
    data = template()
    data["inference"]["layerPattern"] |= {"type": "every_n", "period": 6, "offset": 5}
    with pytest.raises(ManifestError, match=expected):
        resolve(load_manifest(data), embeddinggemma() | change, embeddinggemma_modules())


NOT_OBJECTS = (0, True, 2.5, "x", [], [1])


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (("text_config",), NOT_OBJECTS),
        (("rope_parameters",), NOT_OBJECTS),
        (("rope_parameters", "full_attention"), NOT_OBJECTS),
        (("rope_parameters", "sliding_attention"), NOT_OBJECTS),
        (("layer_types",), (0, True, 2.5, "x", {})),
        (("hidden_activation",), (0, True, 2.5, "", [], {})),
        (("_sliding_window_pattern",), (0, -1, True, 2.5, "x", [], {})),
        (("sliding_window_pattern",), (0, -1, True, 2.5, "x", [], {})),
    ],
)
def test_a_key_of_the_wrong_kind_is_never_taken_for_one_that_is_absent(
    path: tuple[str, ...], values: tuple[object, ...]
) -> None:
    for value in values:
        config = copy.deepcopy(tiny())
        if "window_pattern" in path[0]:
            del config["layer_types"]
        holder = config
        for name in path[:-1]:
            holder = holder[name]
        holder[path[-1]] = value
        named = "inference.ffn.activation" if path == ("hidden_activation",) else ".".join(path)
        with pytest.raises(ManifestError, match=rf"{named}: expected .*, found ") as caught:
            resolve(load_manifest(template()), config, tiny_modules())
        assert not isinstance(caught.value, ContradictionError)


def test_fields_that_nothing_fills_are_named() -> None:
    config = embeddinggemma()
    for key in ("hidden_size", "num_hidden_layers"):
        del config[key]
    with pytest.raises(
        ManifestError, match=r"numLayers, architecture.hiddenSize, .*embeddingPostprocessor.*null"
    ):
        resolve(load_manifest(template()), config, None)


def test_the_tokens_around_a_text_are_those_of_the_tokenizer_config() -> None:
    said = {"add_bos_token": True, "add_eos_token": False}
    manifest = resolve(load_manifest(template()), tiny(), tiny_modules(), said).manifest
    assert (manifest.text.add_bos, manifest.text.add_eos) == (True, False)


def test_lengths_that_a_checkpoint_names_are_its_dimensions() -> None:
    config = tiny() | {"matryoshka_dimensions": [64, 32]}
    assert resolve(load_manifest(template()), config, tiny_modules()).manifest.text.dimensions == (64, 32)


@pytest.mark.parametrize(
    ("modules", "model_type", "expected"),
    [(True, "gemma3_text", "embedding"), (False, "gemma3_text", "causal"), (False, "diffusion_gemma", "diffusion_gemma")],
)  # fmt: skip
def test_a_null_model_type_is_read_off_the_checkpoint(modules: bool, model_type: str, expected: str) -> None:
    data = seed(modelType=None)
    config = embeddinggemma() | {"model_type": model_type, "tie_word_embeddings": False}
    found = resolve(load_manifest(data), config, embeddinggemma_modules() if modules else None)
    assert found.manifest.model_type == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)


@given(
    st.sampled_from([seed(), template()]),
    st.sampled_from(sorted(embeddinggemma() | tiny() | {"text_config": 0})),
    JSON,
)
def test_any_value_in_a_config_resolves_or_is_a_manifest_error(
    data: dict[str, Any], key: str, value: Any
) -> None:
    config = copy.deepcopy(tiny() if data["inference"]["layerPattern"]["type"] is None else embeddinggemma())
    config[key] = value
    try:
        manifest = resolve(load_manifest(data), config, embeddinggemma_modules()).manifest
    except ManifestError as error:
        assert str(error)  # noqa: PT017
    else:
        assert manifest.architecture.num_layers is not None


@pytest.mark.real
def test_the_published_files_say_what_these_tests_take_them_to_say() -> None:
    from doppler_core.weights.checkpoint import read_checkpoint

    checkpoint = read_checkpoint(Path(os.environ["DOPPLER_PLUGINS_REAL_MODELS"]) / "embeddinggemma-300m")
    assert checkpoint.config.items() >= embeddinggemma().items()
    assert checkpoint.sentence is not None
    sentence = dataclasses.asdict(checkpoint.sentence)
    modules = embeddinggemma_modules()
    assert sentence["prompts"].items() >= modules.pop("prompts").items()
    assert {key: list(sentence[key]) if key == "dense" else sentence[key] for key in modules} == modules
    for precision in ("f16", "q8_0", "q4k"):
        path = manifest_for(GEMMA, precision)
        assert path is not None
        standings(resolve(load_manifest(path), checkpoint.config, sentence).manifest, "embedding")
