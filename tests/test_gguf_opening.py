"""GGUF files as models: opened where they lie, shared, converted; the vectors are those of the publisher's folder."""

import dataclasses
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from gguf import GGMLQuantizationType as Type
from gguf_files import write_gguf
from weights_files import change_json

from doppler_core.engine.engine import Engine
from doppler_core.errors import ContradictionError, FileFormatError, SettingsError
from doppler_core.manifest.catalog import template_for
from doppler_core.settings import EngineSettings
from doppler_core.weights.artifact import open_artifact
from doppler_core.weights.gguf_checkpoint import read_gguf
from doppler_plugins.cli.program import cli
from doppler_plugins.conversion import convert_checkpoint, resolve_checkpoint
from doppler_plugins.opening import open_engine, plan_of
from doppler_plugins.sharing import open_count

TEXT = "What time does the last train leave?"


def mixed(name: str, shape: tuple[int, ...]) -> Type:
    """Packed matrices, as a quantised file has them: rows of 64 and 96 values are whole blocks of 32."""
    if len(shape) < 2:
        return Type.F32
    return {"token_embd.weight": Type.Q8_0, "blk.0.attn_q.weight": Type.Q5_0}.get(name, Type.F16)


@pytest.fixture
def settings(tmp_path: Path) -> EngineSettings:
    return EngineSettings(device="numpy", cache_dir=str(tmp_path / "cache"))


@pytest.fixture
def exact(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    return write_gguf(tiny_checkpoint, tmp_path / "Tiny Embedding.gguf")


@pytest.fixture
def packed(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    return write_gguf(tiny_checkpoint, tmp_path / "packed.gguf", mixed)


def vector(engine: Engine) -> np.ndarray:
    return np.asarray(engine.embed([TEXT], prompt_name="query").vectors[0])


def test_an_embedding_model_gives_its_goldens_where_it_lies(
    exact: Path, settings: EngineSettings, golden: dict[str, np.ndarray]
) -> None:
    with open_engine(exact, settings) as engine:
        # float32 sums in another order, over four layers.
        assert np.abs(vector(engine) - golden["embedding0"]).max() < 1e-6
    assert not list((exact.parent / "cache").rglob("artifact.json"))


def test_a_plan_names_the_file_and_reads_the_files_own_types(packed: Path, settings: EngineSettings) -> None:
    plan = plan_of(packed, settings)
    assert plan.model == "packed"
    stored = {weight.name: weight.stored for op in plan.ops() for weight in op.weights}
    assert stored["embed_tokens.weight"] == "q8_0"
    assert stored["layers.0.self_attn.q_proj.weight"] == "q5_0"
    assert stored["layers.0.self_attn.k_proj.weight"] == "f16"
    assert stored["norm.weight"] == "f32"


def test_a_converted_file_keeps_its_blocks_and_its_vectors(
    packed: Path, settings: EngineSettings, tmp_path: Path
) -> None:
    done = convert_checkpoint(resolve_checkpoint(packed, settings), settings, tmp_path / "out")
    artifact = open_artifact(done.path)
    checkpoint = read_gguf(packed).checkpoint
    for name, tensor in checkpoint.tensors.items():
        assert artifact.tensors[name].dtype == tensor.dtype
        assert np.array_equal(artifact.tensors[name].data, tensor.data)
    assert set(artifact.tokenizer_files) >= {"tokenizer.json", "tokenizer_config.json"}
    assert artifact.manifest["inference"]["normalization"]["rmsNormWeightOffset"] is False
    with open_engine(packed, settings) as in_place, open_engine(done.path, settings) as converted:
        assert np.array_equal(vector(in_place), vector(converted))


def test_a_precision_is_for_converting_and_an_error_in_place(
    packed: Path, settings: EngineSettings, tmp_path: Path
) -> None:
    wanted = dataclasses.replace(settings, precision="q8_0")
    with pytest.raises(
        SettingsError, match=r"precision='q8_0': .* is a GGUF file, .*doppler-plugins convert"
    ):
        open_engine(packed, wanted)
    done = convert_checkpoint(resolve_checkpoint(packed, wanted), wanted, tmp_path / "out")
    artifact = open_artifact(done.path)
    assert artifact.tensors["layers.0.self_attn.q_proj.weight"].dtype == "q8_0"
    assert artifact.tensors["embed_tokens.weight"].dtype == "f16"


def test_one_file_is_one_engine_until_it_changes(exact: Path, settings: EngineSettings) -> None:
    before = open_count()
    with open_engine(exact, settings) as one, open_engine(str(exact), settings) as same:
        assert open_count() == before + 1
        assert one.identity == same.identity
        identity = one.identity
    with open_engine(exact.rename(exact.with_name("moved.gguf")), settings) as moved:
        name, identity_moved = moved.model_id, moved.identity
    assert name == "moved"
    content = bytearray((exact.with_name("moved.gguf")).read_bytes())
    content[-4:] = np.float32(0.5).tobytes()  # the last value of the last tensor
    exact.write_bytes(bytes(content))
    os.utime(exact, ns=(1, 1))
    with open_engine(exact, settings) as changed:
        assert changed.identity not in (identity, identity_moved)


def test_a_manifest_for_plain_norms_contradicts_a_gguf_file(
    exact: Path, settings: EngineSettings, tmp_path: Path
) -> None:
    template = template_for(["Gemma3TextModel"])
    assert template is not None
    data = json.loads(template.read_text())
    data["inference"]["normalization"]["rmsNormWeightOffset"] = True
    path = tmp_path / "plain.json"
    path.write_text(json.dumps(data))
    with pytest.raises(ContradictionError, match="rmsNormWeightOffset: the manifest says true"):
        open_engine(exact, dataclasses.replace(settings, manifest=str(path)))


@pytest.mark.parametrize("chats", [False, True])
def test_a_checkpoint_chats_if_it_ships_a_template_and_a_files_own_types_stand_for_quantization(
    tiny_checkpoint: Path, settings: EngineSettings, tmp_path: Path, chats: bool
) -> None:
    """The tiny model's text stack as the causal Gemma 3 it could be."""
    folder = tmp_path / "causal"
    folder.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tiny_checkpoint / name, folder)
    change_json(
        folder / "config.json", architectures=["Gemma3ForCausalLM"], use_bidirectional_attention=False
    )
    if chats:
        (folder / "chat_template.jinja").write_text("{{ messages }}")
    file = write_gguf(folder, tmp_path / "causal.gguf")
    for path, stored, offset in ((folder, "f16", True), (file, None, False)):
        manifest = resolve_checkpoint(path, settings).manifest
        assert manifest.model_type == "causal"
        assert (manifest.inference.chat_template.type, manifest.inference.chat_template.enabled) == (
            "gemma",
            chats,
        )
        assert {manifest.quantization.weights, manifest.quantization.embeddings} == {stored}
        assert manifest.inference.normalization.rms_norm_weight_offset is offset


def test_a_damaged_file_is_an_error_with_its_name(exact: Path, settings: EngineSettings) -> None:
    exact.write_bytes(exact.read_bytes()[:-1000])
    with pytest.raises(FileFormatError, match=r"Tiny Embedding\.gguf: .*it is truncated"):
        open_engine(exact, settings)


def test_the_commands_take_a_gguf_file(packed: Path, settings: EngineSettings, tmp_path: Path) -> None:
    run = CliRunner().invoke
    cache = ["--cache-dir", str(settings.cache_dir)]
    shown = run(cli, ["plan", str(packed), "--device", "numpy", *cache])
    assert shown.exit_code == 0, shown.output
    assert "q5_0" in shown.output
    done = run(cli, ["convert", str(packed), "--out", str(tmp_path / "out"), "--json", *cache])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["artifact"] == str(tmp_path / "out")
    listed = run(cli, ["models", "--json", *cache])
    assert [
        model["name"] for model in json.loads(listed.stdout)["models"] if model["where"] == "cached"
    ] == []
