"""Checkpoint folders: the sentence-transformers layout is read whole, or refused with the file and the reason."""

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from doppler_core.errors import FileFormatError, ModelNotFoundError
from doppler_core.weights.checkpoint import read_checkpoint
from doppler_core.weights.storage import to_f32
from tests.weights_files import (
    HIDDEN,
    WIDE,
    backbone,
    change_json,
    write_checkpoint,
    write_json,
    write_safetensors,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "model")


def test_the_whole_layout_is_read(folder: Path) -> None:
    checkpoint = read_checkpoint(folder)
    modules = checkpoint.sentence
    assert modules is not None
    assert (modules.pooling, modules.include_prompt, modules.normalize) == ("mean", True, True)
    assert [(layer.in_features, layer.out_features) for layer in modules.dense] == [
        (HIDDEN, WIDE),
        (WIDE, HIDDEN),
    ]
    assert modules.prompts == {"query": "q: ", "document": "d: "}
    assert (modules.default_prompt_name, modules.max_seq_length, modules.similarity) == (None, 64, "cosine")
    assert checkpoint.config["hidden_size"] == HIDDEN
    assert checkpoint.tokenizer_files == {"tokenizer.json": folder / "tokenizer.json"}


def test_the_dense_layers_join_the_tensors_under_names_of_their_own(folder: Path) -> None:
    tensors = read_checkpoint(folder).tensors
    second = tensors["embedding_postprocessor.projections.1.weight"]
    assert (second.name, second.shape) == ("embedding_postprocessor.projections.1.weight", (HIDDEN, WIDE))
    assert second.path == folder / "3_Dense" / "model.safetensors"
    assert np.array_equal(to_f32(tensors["embed_tokens.weight"]), backbone()["embed_tokens.weight"])


def test_a_dense_layer_may_have_a_bias(folder: Path) -> None:
    change_json(folder / "2_Dense" / "config.json", bias=True)
    weight, bias = np.ones((WIDE, HIDDEN), np.float32), np.arange(WIDE, dtype=np.float32)
    write_safetensors(
        folder / "2_Dense" / "model.safetensors", {"linear.weight": weight, "linear.bias": bias}
    )
    checkpoint = read_checkpoint(folder)
    assert checkpoint.sentence is not None
    assert checkpoint.sentence.dense[0].bias == "embedding_postprocessor.projections.0.bias"
    assert np.array_equal(to_f32(checkpoint.tensors["embedding_postprocessor.projections.0.bias"])[0], bias)


@pytest.mark.parametrize(
    ("fields", "mode"),
    [
        ({"pooling_mode_mean_tokens": False, "pooling_mode_lasttoken": True}, "last"),
        ({"pooling_mode_mean_tokens": ..., "pooling_mode": "mean"}, "mean"),
        ({"pooling_mode_mean_tokens": ..., "pooling_mode": ["lasttoken"]}, "last"),
    ],
)
def test_both_spellings_of_both_poolings_are_read(folder: Path, fields: dict[str, Any], mode: str) -> None:
    change_json(folder / "1_Pooling" / "config.json", **fields)
    sentence = read_checkpoint(folder).sentence
    assert sentence is not None
    assert sentence.pooling == mode


def test_a_transformer_in_a_folder_of_its_own_is_followed(folder: Path) -> None:
    inner = folder / "0_Transformer"
    inner.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json", "sentence_bert_config.json"):
        (folder / name).rename(inner / name)
    text = (folder / "modules.json").read_text()
    (folder / "modules.json").write_text(text.replace('"path": ""', '"path": "0_Transformer"'))
    checkpoint = read_checkpoint(folder)
    assert checkpoint.tokenizer_files == {"tokenizer.json": inner / "tokenizer.json"}
    assert checkpoint.tensors["norm.weight"].path == inner / "model.safetensors"


@pytest.mark.parametrize(
    ("file", "fields", "words"),
    [
        ("1_Pooling/config.json", {"pooling_mode_mean_tokens": False}, r"pooling \[\] is not supported"),
        (
            "1_Pooling/config.json",
            {"pooling_mode_cls_token": True},
            "is not supported; expected mean or last",
        ),
        ("1_Pooling/config.json", {"pooling_mode": "cls"}, "pooling .*cls.* is not supported"),
        ("1_Pooling/config.json", {"pooling_mode": 5}, "pooling .* is not supported"),
        (
            "1_Pooling/config.json",
            {"word_embedding_dimension": ...},
            "`word_embedding_dimension`: expected int",
        ),
        ("1_Pooling/config.json", {"include_prompt": "yes"}, "`include_prompt`"),
        ("2_Dense/config.json", {"activation_function": "torch.nn.Tanh"}, "'torch.nn.Tanh' is not supported"),
        ("2_Dense/config.json", {"activation_function": ...}, "Tanh' is not supported"),
        ("1_Pooling/config.json", {"word_embedding_dimension": 95}, "in_features is 96, .* before gives 95"),
        ("2_Dense/config.json", {"in_features": True}, "`in_features`: expected int"),
        (
            "2_Dense/config.json",
            {"out_features": 161},
            r"has shape \[160, 96\], but config.json .* \[161, 96\]",
        ),
        ("2_Dense/config.json", {"bias": True}, "no tensor 'linear.bias'"),
        ("2_Dense/config.json", {"module_input_name": "token_embeddings"}, "`module_input_name`"),
        ("config_sentence_transformers.json", {"prompts": {"query": 1}}, "`prompts`"),
        ("config_sentence_transformers.json", {"default_prompt_name": "x"}, "'x' is none of"),
        ("config_sentence_transformers.json", {"similarity_fn_name": 3}, "`similarity_fn_name`"),
        ("sentence_bert_config.json", {"max_seq_length": 0}, "`max_seq_length`"),
        ("sentence_bert_config.json", {"do_lower_case": True}, "`do_lower_case`"),
    ],
)
def test_what_would_change_the_vectors_is_refused(
    folder: Path, file: str, fields: dict[str, Any], words: str
) -> None:
    change_json(folder / file, **fields)
    with pytest.raises(FileFormatError, match=words) as caught:
        read_checkpoint(folder)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors", ""])
def test_a_missing_dense_layer_is_never_left_out(folder: Path, missing: str) -> None:
    target = folder / "3_Dense" / missing
    shutil.rmtree(target) if target.is_dir() else target.unlink()
    with pytest.raises(FileFormatError, match=r"3_Dense: modules\.json names this dense layer.*folder whole"):
        read_checkpoint(folder)


def test_an_embedding_model_without_its_modules_is_refused(folder: Path) -> None:
    (folder / "modules.json").unlink()
    with pytest.raises(FileFormatError, match=r"modules\.json with its pooling and dense layers is missing"):
        read_checkpoint(folder)


def test_a_causal_model_needs_no_modules(folder: Path) -> None:
    (folder / "modules.json").unlink()
    change_json(folder / "config.json", use_bidirectional_attention=...)
    assert read_checkpoint(folder).sentence is None


@pytest.mark.parametrize(
    ("modules", "words"),
    [
        ({}, "expected a list of modules"),
        ([], "expected Transformer, Pooling"),
        ([1], "expected a list of modules"),
        (
            [{"type": "sentence_transformers.models.Transformer"}],
            "module 0: `path`: expected str, got nothing",
        ),
        ([{"path": "", "type": "sentence_transformers.models.CNN"}], "module type .*CNN' is not supported"),
        ([{"path": "", "type": "evil.models.Transformer"}], "module type .* is not supported"),
        ([{"path": "../x", "type": "sentence_transformers.models.Transformer"}], "leaves its folder"),
        ([{"path": "/x", "type": "sentence_transformers.models.Transformer"}], "leaves its folder"),
        ([{"path": "", "type": "sentence_transformers.models.Pooling"}], "expected Transformer, Pooling"),
    ],
)
def test_a_wrong_module_list_is_refused(folder: Path, modules: object, words: str) -> None:
    write_json(folder / "modules.json", modules)
    with pytest.raises(FileFormatError, match=words) as caught:
        read_checkpoint(folder)
    assert "modules.json" in str(caught.value)


def test_modules_in_another_order_are_refused(folder: Path) -> None:
    text = (folder / "modules.json").read_text()
    (folder / "modules.json").write_text(
        text.replace("Normalize", "Dense").replace("models.Pooling", "models.Normalize")
    )
    with pytest.raises(
        FileFormatError, match="in this order, got Transformer, Normalize, Dense, Dense, Dense"
    ):
        read_checkpoint(folder)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        '{"a": 1, "a": 2}',
        '{"a": Infinity}',
        '{"a": 1e999}',
        '{"a": "\\ud800"}',
        '{"\\udc00\\ud800": 1}',
        '{"a": ' + "[" * 101 + "]" * 101 + "}",
        '{"a": ' * 900 + "1" + "}" * 900,
        "[" * 100_000,
        '{"a": ' + "9" * 5000 + "}",
    ],
    ids=lambda text: repr(text[:20]),
)
@pytest.mark.parametrize(
    "file", ["config.json", "1_Pooling/config.json", "config_sentence_transformers.json"]
)
def test_bad_json_names_its_file(folder: Path, file: str, text: str) -> None:
    (folder / file).write_text(text)
    with pytest.raises(FileFormatError) as caught:
        read_checkpoint(folder)
    assert str(folder / file) in str(caught.value)


def test_a_pair_of_surrogates_is_the_letter_it_stands_for(folder: Path) -> None:
    (folder / "config_sentence_transformers.json").write_text('{"prompts": {"query": "\\ud83e\\udd89 "}}')
    assert read_checkpoint(folder).sentence.prompts == {"query": "\U0001f989 "}  # type: ignore[union-attr]


@pytest.mark.parametrize("place", ["x" * 300, "a/" * 3000, "\u00e9" * 200])
def test_a_folder_name_that_no_system_takes_is_refused(folder: Path, place: str) -> None:
    for index in range(4):
        modules = json.loads((folder / "modules.json").read_text())
        modules[index]["path"] = place
        write_json(folder / "modules.json", modules)
        with pytest.raises(FileFormatError, match="is not a file name"):
            read_checkpoint(folder)
        write_checkpoint(folder)


@pytest.mark.parametrize("bias", [None, "", 0, "yes"])
def test_a_dense_layers_bias_is_yes_or_no(folder: Path, bias: object) -> None:
    change_json(folder / "2_Dense" / "config.json", bias=bias)
    with pytest.raises(FileFormatError, match=r"2_Dense.*`bias`: expected bool"):
        read_checkpoint(folder)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ESTALE])
@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_file_that_the_system_refuses_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    stat = Path.stat

    def refuse(path: Path, **options: bool) -> os.stat_result:
        if path.name == name:
            raise OSError(number, os.strerror(number), str(path))
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", refuse)
    with pytest.raises(FileFormatError, match=os.strerror(number)) as caught:
        read_checkpoint(folder)
    assert str(folder / name) in str(caught.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 200) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_odd_json_anywhere_raises_nothing_but_a_format_error(folder: Path, data: st.DataObject) -> None:
    file = data.draw(
        st.sampled_from(sorted(str(path.relative_to(folder)) for path in folder.rglob("*.json")))
    )
    before = (folder / file).read_text()
    value = json.loads(before)
    for holder in value if isinstance(value, list) else [value]:
        if data.draw(st.booleans()):
            holder[data.draw(st.sampled_from(sorted(holder)))] = data.draw(json_values)
    write_json(folder / file, value if data.draw(st.integers(0, 4)) else data.draw(json_values))
    try:
        assert read_checkpoint(folder).tensors
    except (FileFormatError, ModelNotFoundError):
        pass
    finally:
        (folder / file).write_text(before)


def test_a_folder_that_is_no_checkpoint_is_not_found(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(ModelNotFoundError):
            read_checkpoint(folder)


def test_the_source_is_what_the_card_loads_then_what_the_config_says(folder: Path) -> None:
    assert read_checkpoint(folder).source_id is None
    change_json(folder / "config.json", _name_or_path="org/from-config")
    assert read_checkpoint(folder).source_id == "org/from-config"
    (folder / "README.md").write_text('model = SentenceTransformer("org/from-card")\n')
    assert read_checkpoint(folder).source_id == "org/from-card"
    (folder / "README.md").write_text('SentenceTransformer("org/a")\nAutoModel.from_pretrained("org/b")\n')
    assert read_checkpoint(folder).source_id == "org/from-config"


def test_a_folder_of_the_hub_cache_names_its_source(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "models--google--embeddinggemma-300m" / "snapshots" / "abc")
    assert read_checkpoint(folder).source_id == "google/embeddinggemma-300m"
