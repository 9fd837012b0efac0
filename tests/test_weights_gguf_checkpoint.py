"""GGUF files as checkpoints: the same tensors and the same config as the publisher's folder they were made from."""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gemma4_folder import write_gemma4
from gguf_files import finish, write_gguf, write_settings
from hypothesis import given, settings
from hypothesis import strategies as st

from doppler_core.errors import FileFormatError
from doppler_core.weights.checkpoint import Checkpoint, read_checkpoint
from doppler_core.weights.gguf import open_gguf
from doppler_core.weights.gguf_checkpoint import read_gguf
from doppler_core.weights.storage import to_f32


@pytest.fixture
def embedding(tiny_checkpoint: Path, tmp_path: Path) -> Checkpoint:
    return read_gguf(write_gguf(tiny_checkpoint, tmp_path / "e.gguf")).checkpoint


def assert_same_tensors(found: Checkpoint, published: Checkpoint, offset: float) -> None:
    """The tensors of the publisher's text stack, with `offset` added to norms, as llama.cpp's converter does."""
    theirs = {name: tensor for name, tensor in published.tensors.items() if "_tower." not in name}
    assert set(found.tensors) == set(theirs)
    for name, tensor in found.tensors.items():
        assert tensor.shape == theirs[name].shape, name
        shift = offset if name.endswith("norm.weight") else 0
        assert np.array_equal(to_f32(tensor), to_f32(theirs[name]) + np.float32(shift)), name


def assert_same_config(found: Mapping[str, Any], published: Mapping[str, Any]) -> None:
    """Every key that the GGUF's config has is as the publisher's file has it."""
    different = {key: (value, published[key]) for key, value in found.items() if published.get(key) != value}
    assert not different


def test_an_embedding_model_is_read_as_its_publisher_ships_it(
    embedding: Checkpoint, tiny_checkpoint: Path
) -> None:
    published = read_checkpoint(tiny_checkpoint)
    assert_same_tensors(embedding, published, 1)
    own = dict(embedding.config)
    # The file says these in its own way: norms with their 1, the rotation in keys of its own.
    assert own.pop("rms_norm_weight_offset") is False
    assert (own.pop("rope_theta"), own.pop("rope_local_base_freq"), own.pop("rope_scaling")) == (
        1e6,
        1e4,
        None,
    )
    assert_same_config(own, published.config)
    assert embedding.sentence is not None
    assert published.sentence is not None
    assert (embedding.sentence.dense, embedding.sentence.pooling) == (published.sentence.dense, "mean")
    assert embedding.sentence.prompts["query"] == "task: search result | query: "


@pytest.mark.parametrize("experts", [False, True])
def test_gemma_4_is_read_as_its_publisher_ships_it(tmp_path: Path, experts: bool) -> None:
    published = read_checkpoint(write_gemma4(tmp_path / "hf", experts))
    found = read_gguf(write_gguf(tmp_path / "hf", tmp_path / "g.gguf")).checkpoint
    assert_same_tensors(found, published, 0)
    assert set(found.config) == set(published.config)
    assert_same_config(found.config["text_config"], published.config["text_config"])


def settings_only(
    path: Path, remove: tuple[str, ...] = (), tensors: tuple[str, ...] = (), **changes: Any
) -> Path:
    """A Gemma 3 of which only the metadata, the token table and a few other tensors are there."""
    text = {
        "model_type": "gemma3_text",
        "num_hidden_layers": 8,
        "max_position_embeddings": 256,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "rms_norm_eps": 1e-6,
        "sliding_window": 16,
        "query_pre_attn_scalar": 24,
    } | changes
    writer = gguf.GGUFWriter(path, "gemma3")
    write_settings(writer, {"layer_types": ["full_attention"] * text["num_hidden_layers"], **text})
    for key, value in changes.items():
        if key.startswith("rope."):
            writer.add_key_value(f"gemma3.{key}", *value)
    for key in remove:
        del writer.kv_data[0][f"gemma3.{key}"]
    for name in ("token_embd.weight", *tensors):
        writer.add_tensor(name, np.zeros((10, 64), np.float32))
    finish(writer)
    return path


OWN = ("attention.sliding_window_pattern", "attention.scale")


def test_what_the_metadata_leave_out_is_the_architectures_own(tmp_path: Path) -> None:
    config = read_gguf(settings_only(tmp_path / "m.gguf", OWN)).checkpoint.config
    assert [layer for layer, kind in enumerate(config["layer_types"]) if kind == "full_attention"] == [5]
    assert (config["query_pre_attn_scalar"], config["rope_local_base_freq"]) == (32, 10000)
    assert (config["tie_word_embeddings"], config["vocab_size"], config["rms_norm_eps"]) == (True, 10, 1e-6)


def test_the_scores_of_the_27b_are_scaled_by_its_hidden_size_and_heads(tmp_path: Path) -> None:
    config = read_gguf(settings_only(tmp_path / "m.gguf", OWN, num_hidden_layers=62)).checkpoint.config
    assert config["query_pre_attn_scalar"] == 64 // 4


def test_the_full_layers_linear_scaling_is_read(tmp_path: Path) -> None:
    kinds = gguf.GGUFValueType
    scaling = {
        "rope.scaling.type": ("linear", kinds.STRING),
        "rope.scaling.factor": (8.0, kinds.FLOAT32),
    }
    config = read_gguf(settings_only(tmp_path / "m.gguf", **scaling)).checkpoint.config
    assert config["rope_scaling"] == {"rope_type": "linear", "factor": 8.0}


def test_a_head_of_its_own_is_read(tmp_path: Path) -> None:
    found = read_gguf(settings_only(tmp_path / "m.gguf", tensors=("output.weight",))).checkpoint
    assert found.config["tie_word_embeddings"] is False
    assert "lm_head.weight" in found.tensors


@pytest.mark.parametrize(
    "key", ["block_count", "attention.key_length", "rope.freq_base", "attention.layer_norm_rms_epsilon"]
)
def test_a_setting_that_is_missing_is_named(tmp_path: Path, key: str) -> None:
    with pytest.raises(FileFormatError, match=f"the metadata lack gemma3.{key}, which"):
        read_gguf(settings_only(tmp_path / "m.gguf", (key,)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": 0}, r"gemma3\.embedding_length: expected a size, found 0"),
        ({"num_hidden_layers": 1 << 14}, r"gemma3\.block_count: 16384 layers, more than 10000"),
        (
            {"layer_types": ["full_attention"]},
            r"sliding_window_pattern: expected a bool for each of 8 layers, found 1",
        ),
        ({"intermediate_size": [96] * 8}, r"gemma3\.feed_forward_length: expected int, found ndarray"),
    ],
)
def test_a_setting_that_cant_be_is_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        read_gguf(settings_only(tmp_path / "m.gguf", **changes))


@pytest.mark.parametrize("without", [("dense_2.weight",), ("dense_2.weight", "dense_3.weight")])
def test_an_embedding_model_without_its_dense_layers_says_what_to_add(
    tiny_checkpoint: Path, tmp_path: Path, without: tuple[str, ...]
) -> None:
    path = write_gguf(tiny_checkpoint, tmp_path / "e.gguf", without=without)
    with pytest.raises(FileFormatError, match=r"missing \(dense_2.*--sentence-transformers-dense-modules"):
        read_gguf(path)


def test_another_architecture_is_refused_by_name(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.add_tensor("token_embd.weight", np.zeros((4, 8), np.float32))
    finish(writer)
    with pytest.raises(FileFormatError, match="'llama'; expected one of gemma3, gemma-embedding, gemma4"):
        read_gguf(tmp_path / "m.gguf")


def test_a_tensor_that_the_architecture_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"'blk\.0\.attn_q\.bias' is none of the architecture gemma3"):
        read_gguf(settings_only(tmp_path / "m.gguf", tensors=("blk.0.attn_q.bias",)))


def test_the_tensors_of_a_tower_are_left_where_they_are(tmp_path: Path) -> None:
    name = "v.blk.0.attn_q.weight"
    tensors = read_gguf(settings_only(tmp_path / "m.gguf", tensors=(name,))).checkpoint.tensors
    assert list(tensors) == ["model.embed_tokens.weight"]
    with pytest.raises(FileFormatError, match="is of a vision or audio tower, not read from GGUF"):
        tensors[name]


def test_a_rotation_that_is_not_proportional_is_refused(tmp_path: Path) -> None:
    write_gemma4(tmp_path / "hf")
    with pytest.raises(FileFormatError, match=r"no tensor 'rope_freqs\.weight'"):
        read_gguf(write_gguf(tmp_path / "hf", tmp_path / "g.gguf", without=("rope_freqs.weight",)))


@settings(max_examples=150)
@given(
    edits=st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=4)),
        min_size=1,
        max_size=3,
    )
)
def test_a_changed_head_is_read_or_refused_as_a_checkpoint_too(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[float, bytes]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "changed-checkpoint.gguf"
    if not (whole := path.with_suffix(".whole")).exists():
        write_gguf(write_gemma4(path.with_suffix(".hf")), whole)
    content = bytearray(whole.read_bytes())
    head = open_gguf(whole).head.size
    for place, values in edits:
        at = int(place * head)
        content[at : at + len(values)] = values
    path.write_bytes(bytes(content))
    with contextlib.suppress(FileFormatError):
        read_gguf(path)
