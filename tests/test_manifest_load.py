"""Manifests load strictly: every seed round-trips, and every other text is a ManifestError with its JSON path."""

import copy
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doppler_core.errors import ManifestError
from doppler_core.manifest import load_manifest, manifest_json

SEEDS = {path.stem: path for path in sorted((Path(__file__).parent / "data/seeds").glob("*.json"))}
EMBEDDING = "google-embeddinggemma-300m-q4k-ehf16-af32"
DATA = {name: json.loads(path.read_text()) for name, path in SEEDS.items()}
Place = tuple[str | int, ...]


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """The path of every value inside a JSON value."""
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, child in children:
        yield (*at, key)
        yield from places(child, (*at, key))


PLACES = {name: list(places(data)) for name, data in DATA.items()}
ANYWHERE = st.sampled_from([(name, place) for name, found in PLACES.items() for place in found])
IN_OBJECTS = st.sampled_from(
    [(name, place) for name, found in PLACES.items() for place in found if isinstance(place[-1], str)]
)


def inside(data: Any, place: Place) -> Any:
    for key in place:
        data = data[key]
    return data


def javascript(place: Place) -> str:
    """A place as a message should write it."""
    text = ""
    for key in place:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else key
    return text


def embedding() -> dict[str, Any]:
    return copy.deepcopy(DATA[EMBEDDING])


@pytest.mark.parametrize("name", SEEDS)
def test_a_seed_loads_and_serialises_to_equal_values(name: str) -> None:
    assert manifest_json(load_manifest(SEEDS[name])) == DATA[name]


def test_steps_groups_and_kernels_are_typed() -> None:
    execution = load_manifest(SEEDS["gemma-4-e2b-it-q4k-ehf16-af32"]).execution
    assert execution.kernels["attn_decode"].precision is not None
    assert execution.kernels["attn_decode"].precision.kv_dtype == "f16"
    assert execution.kernels["gelu"].constants == {"HAS_GATE": True}
    assert [step.op for step in execution.layer_steps("prefill", 4)][:2] == ["input_norm", "q_proj"]
    attention = {layer: execution.layer_steps("prefill", layer)[6].kernel for layer in (3, 4)}
    assert attention == {3: "attn_head256", 4: "attn_head512"}
    assert execution.pre_layer[0].weights == "embed_tokens"
    assert execution.layer_steps("prefill", 99) == ()


def refusal(data: Any) -> str | None:
    """The message a manifest is refused with, None if it loads. Any other error fails the test."""
    try:
        load_manifest(data)
    except ManifestError as error:
        return str(error)
    return None


OPTIONAL = {"modelType", "textOnly", "fast", "moeConfig", "manifest", "largeWeights", "ropeInterleaved"} | {
    "vision", "projector", "audio", "diffusionGemma", "supportsEmbedding", "supportsTranscription",
    "supportsVision", "gpuResidentOverrides", "artifactIdentity", "visionConfig", "audioConfig", "constants",
    "sourceCheckpointId", "weightPackId", "manifestVariantId", "artifactCompleteness", "precision",
    "activationDtype", "kvDtype", "inputDtype", "outputDtype",
}  # fmt: skip


@settings(max_examples=300)
@given(ANYWHERE)
def test_a_removed_field_is_missing_at_its_path_unless_it_is_optional(where: tuple[str, Place]) -> None:
    name, place = where
    data = copy.deepcopy(DATA[name])
    del inside(data, place[:-1])[place[-1]]
    message = refusal(data)
    if isinstance(place[-1], int) or place[-2:-1] == ("constants",):
        return  # one entry or one constant less: another list, if it is one
    if place[:2] == ("execution", "kernels") and len(place) == 3:
        assert message is None or f'no kernel "{place[-1]}"' in message
    elif place[-1] in OPTIONAL and message is None:
        return
    else:
        assert message is not None
        assert f"{javascript(place)}: missing" in message or "the cast at" in message


@settings(max_examples=300)
@given(IN_OBJECTS, st.text(max_size=1))
def test_an_added_field_is_named_with_its_path_and_the_nearest_name(
    where: tuple[str, Place], extra: str
) -> None:
    name, place = where
    if "kernels" in place[-2:] or "constants" in place[-2:] or (place[:1] + place[2:] == ("execution",)):
        return  # keys of free objects, not fields
    data = copy.deepcopy(DATA[name])
    key = f"{place[-1]}{extra}_"
    inside(data, place[:-1])[key] = 1
    with pytest.raises(ManifestError) as caught:
        load_manifest(data)
    message = str(caught.value)
    assert "unknown field" in message
    assert f'"{place[-1]}"' in message
    assert javascript(place[:-1]) in message


WRONG = st.sampled_from(
    [
        {"a": 1},
        [{}],
        "\ud800",
        "no such word",
        -1,
        10**400,
        1e308,
        float("nan"),
        float("inf"),
        True,
        None,
        b"x",
    ]
)


@settings(max_examples=300)
@given(ANYWHERE, WRONG)
def test_a_wrongly_typed_value_is_a_manifest_error_that_says_where_and_what_was_expected(
    where: tuple[str, Place], wrong: Any
) -> None:
    name, place = where
    data = copy.deepcopy(DATA[name])
    inside(data, place[:-1])[place[-1]] = wrong
    message = refusal(data)
    if message is None:
        # A free name, number, flag, list or nullable field: the value is one that the field takes.
        assert wrong is None or isinstance(wrong, bool | int | float | str | dict)
    else:
        message.encode()  # can be written to any log
        assert "pydantic" not in message
        assert "another kind of value" not in message
        assert javascript(place) in message or f"{javascript(place[:-1])}: " in message


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("inference.attention", {"slidingWndow": 1}), 'inference.attention.slidingWndow: unknown field; did you mean "slidingWindow"?'),
        (("inference.attention", {"sliding_window": 1}), 'inference.attention.sliding_window: unknown field; did you mean "slidingWindow"?'),
        (("inference", {"slidingWindow": 1}), "inference.slidingWindow: unknown field; it belongs at inference.attention.slidingWindow"),
        (("", {"model_type": "x"}), 'model_type: unknown field; did you mean "modelType"?'),
        (("inference.attention", {"causal": "no"}), 'inference.attention.causal: expected true or false, found "no"'),
        (("inference.attention", {"slidingWindow": 1.5}), "inference.attention.slidingWindow: expected a whole number, found 1.5"),
        (("inference.attention", {"slidingWindow": True}), "inference.attention.slidingWindow: expected a whole number, found true"),
        (("inference.attention", {"slidingWindow": 0}), "inference.attention.slidingWindow: expected a number of at least 1, found 0"),
        (("inference.normalization", {"rmsNormEps": True}), "inference.normalization.rmsNormEps: expected a number, found true"),
        (("inference.rope", {"partialRotaryFactor": 1.5}), "inference.rope.partialRotaryFactor: expected a number of at most 1.0, found 1.5"),
        (("quantization", {"weights": "q4_0"}), 'quantization.weights: expected "q4k", "q8_0", "f16", "bf16" or "f32", found "q4_0"'),
        (("quantization", {"computePrecision": "f16"}), 'quantization.computePrecision: expected "f32", as session.compute'),
        (("execution.policies", {"unresolvedKernel": "warn"}), 'execution.policies.unresolvedKernel: expected "error", found "warn"'),
        (("execution.kernels.rope", {"digest": "sha256:12"}), 'execution.kernels.rope.digest: expected "sha256:" and 64'),
        (("execution.kernels.rope", {"digest": ""}), 'in lower case (`doppler-plugins pin FILE` writes the digests), found ""'),
        (("execution.kernels.rope", {"kernel": "../rope.wgsl"}), "execution.kernels.rope.kernel: expected the name of a .wgsl file, without a folder"),
        (("execution.kernels.rope", {"entry": "main()"}), "execution.kernels.rope.entry: expected the name of a WGSL entry point"),
        (("execution.kernels.gelu", {"constants": {"HAS_GATE": "yes"}}), 'execution.kernels.gelu.constants.HAS_GATE: expected true, false or a number, found "yes"'),
        (("execution", {"decode": [["q_proj", "tild"]]}), 'execution.decode[0][1]: no kernel "tild" in execution.kernels; did you mean "tiled"?'),
        (("execution", {"decode": [["q_proj"]]}), "execution.decode[0]: expected a step [op, kernelKey]"),
        (("execution", {"decode": [["q_proj", 4]]}), "execution.decode[0][1]: expected a string, found 4"),
        (("execution", {"decode": [{"layers": [-1], "steps": []}]}), "execution.decode[0].layers[0]: expected a number of at least 0, found -1"),
        (("execution", {"decode": [{"layers": [0, 0], "steps": []}]}), "execution.decode[0].layers: layer 0 is listed twice"),
        (("execution", {"decode": [{"layers": [0], "steps": [], "kernel": 1}]}), "execution.decode[0].kernel: unknown field"),
        (("execution", {"postLayer": [{"layers": [0], "steps": []}]}), "execution.postLayer[0]: expected a step: a section that runs once"),
        (("execution", {"preLayer": [["cast", "rope"]]}), "execution.kernels.rope.precision: the cast at execution.preLayer[0] needs"),
        (("architecture", {"headDim": 65536}), "inference.attention.queryPreAttnScalar: 256 is the square root of headDim"),
        (("architecture", {"hiddenSize": 64}), "projections[0].inputSize: expected 64, as architecture.hiddenSize gives, found 768"),
        (("text", {"defaultPromptName": "qery", "prompts": {"query": "q: "}}), 'text.defaultPromptName: no prompt "qery" in text.prompts; did you mean "query"?'),
        (("inference.layerPattern", {"layerTypes": ["full_attention"]}), 'inference.layerPattern.layerTypes: expected null, as the type is "every_n", found ["full_attention"]'),
        (("inference.layerPattern", {"offset": 6}), "inference.layerPattern.offset: expected less than the period 6, found 6"),
        (("text", {"dimensions": [512, 256]}), "text.dimensions: expected 768 first, as projections[1].outputSize gives, found 512"),
        (("text", {"dimensions": [128, 256]}), "text.dimensions: expected lengths from the longest to the shortest"),
    ],
)  # fmt: skip
def test_the_message_says_what_to_change(change: tuple[str, dict[str, Any]], expected: str) -> None:
    section, values = change
    data = embedding()
    target = data
    for key in filter(None, section.split(".")):
        target = target.setdefault(key, {})
    target.update(values)
    with pytest.raises(ManifestError) as caught:
        load_manifest(data, "mine.json")
    assert str(caught.value).startswith("mine.json: ")
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{"a": 1, "a": 2}', 'the key "a" stands twice'),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b'{"a": -Infinity}', "-Infinity is not a JSON number"),
        (b'{"a": 1e999}', "1e999 is not a JSON number"),
        (b'{"a": ' + b"9" * 5000 + b"}", "too many digits"),
        (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
        (b"\xef\xbb\xbf{}", "not JSON at line 1"),
        (b"[1]", "expected a JSON object at the top, found a list"),
        (b"null", "expected a JSON object at the top, found null"),
        (b'{"a": ' * 41 + b"1" + b"}" * 41, "nested too deep"),
        (b"[" * 1_000_000, "nested too deep"),
        (b'{"a": 1,}', "not JSON at line 1, column 9"),
        (b'{"a": "\\ud800"}', "half of a surrogate pair"),
        (b'{"\\udc00\\ud83e": 1}', "half of a surrogate pair"),
        (b"", "not JSON"),
        (b" " * (4 * 2**20 + 1), "larger than"),
    ],
)
def test_a_text_that_is_not_strict_json_is_an_error_that_names_the_file(
    tmp_path: Path, text: bytes, expected: str
) -> None:
    path = tmp_path / "manifest.json"
    path.write_bytes(text)
    with pytest.raises(ManifestError) as caught:
        load_manifest(path)
    assert str(caught.value).startswith(str(path))
    assert expected in str(caught.value)


def test_what_is_no_regular_file_is_an_error_that_names_it_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    for path in (
        tmp_path / "none.json",
        tmp_path,
        tmp_path / "pipe.json",
        Path("/dev/zero"),
        tmp_path / ("n" * 300),
    ):
        with pytest.raises(ManifestError, match="can't be read") as caught:
            load_manifest(path)
        assert str(caught.value).startswith(f"{path}: can't be read (")
    with pytest.raises(ManifestError, match="not a path"):
        load_manifest(tmp_path / "nul\0")


def test_a_loaded_manifest_can_not_be_changed() -> None:
    manifest = load_manifest(SEEDS[EMBEDDING])
    with pytest.raises(ValueError, match="frozen"):
        manifest.inference.attention.causal = True  # type: ignore[misc]
