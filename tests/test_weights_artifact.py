"""Artifacts: what was converted opens as it was written; what was changed since is found and named."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from doppler_core.errors import FileFormatError, IntegrityError, ModelNotFoundError
from doppler_core.weights import integrity
from doppler_core.weights.artifact import open_artifact, verify
from doppler_core.weights.checkpoint import read_checkpoint
from doppler_core.weights.convert import convert
from doppler_core.weights.storage import to_f32
from tests.weights_files import backbone, change_json, write_checkpoint

MANIFEST = {"quantization": {"weights": "q8_0", "embeddings": "f16", "lmHead": "f16"}}


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("artifact")
    checkpoint = read_checkpoint(write_checkpoint(folder / "checkpoint"))
    return convert(checkpoint, MANIFEST, folder / "out", shard_bytes=40_000).path


@pytest.fixture
def artifact(converted: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(converted, tmp_path / "artifact"))


def test_an_artifact_opens_with_its_tensors_manifest_and_tokenizer(artifact: Path) -> None:
    opened = open_artifact(artifact)
    assert opened.manifest == MANIFEST
    assert opened.tokenizer_files == {"tokenizer.json": artifact / "tokenizer.json"}
    norm = opened.tensors["norm.weight"]
    assert np.array_equal(to_f32(norm)[0], backbone()["norm.weight"])
    assert norm.path.parent == artifact
    table = opened.tensors["embed_tokens.weight"]
    assert table.dtype == "f16"
    assert np.array_equal(
        to_f32(table), backbone()["embed_tokens.weight"].astype(np.float16).astype(np.float32)
    )


def test_tensors_are_aligned_views_of_the_mapped_shards(artifact: Path) -> None:
    opened = open_artifact(artifact)
    assert len(opened.info.shards) > 1
    for name, tensor in opened.tensors.items():
        assert opened.info.tensors[name].offset % 256 == 0
        assert not tensor.data.flags.owndata
        assert not tensor.data.flags.writeable


def test_an_unknown_tensor_is_answered_with_the_artifact_and_the_nearest_name(artifact: Path) -> None:
    with pytest.raises(FileFormatError, match=r"artifact\.json: no tensor 'norm\.weigh' .*'norm\.weight'"):
        open_artifact(artifact).tensors["norm.weigh"]


def test_the_identity_follows_every_byte_that_counts(artifact: Path) -> None:
    before = open_artifact(artifact).identity
    assert open_artifact(artifact).identity == before
    change_json(artifact / "manifest.json", modelType="embedding")
    assert open_artifact(artifact).identity != before


@pytest.mark.parametrize("file", ["weights-00001.bin", "weights-00002.bin", "tokenizer.json"])
def test_one_flipped_bit_is_found_by_opening_and_by_verify(artifact: Path, file: str) -> None:
    flip(artifact / file)
    for check in (open_artifact, verify):
        with pytest.raises(
            IntegrityError, match=f"{file}: its content has changed .* expected [0-9a-f]{{64}}, found"
        ):
            check(artifact)


def flip(path: Path, keep_time: bool = False) -> None:
    """Change one bit in the middle of a file."""
    stat = path.stat()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    if keep_time:
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


# --- hashes are read again only when files changed ---------------------------------------------------------------


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Path], bool]:
    """Opens an artifact that counts as large, and says whether its hashes were read."""
    monkeypatch.setattr(integrity, "SMALL_ARTIFACT", 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def opens(folder: Path) -> bool:
        stages: list[str] = []
        open_artifact(folder, lambda stage, done, total: stages.append(stage))
        return "verifying" in stages

    return opens


def test_hashes_are_read_once_until_a_file_changes(artifact: Path, hashed: Callable[[Path], bool]) -> None:
    assert [hashed(artifact), hashed(artifact)] == [True, False]
    os.utime(artifact / "weights-00001.bin", ns=(1, 1))
    assert [hashed(artifact), hashed(artifact)] == [True, False]
    flip(artifact / "weights-00001.bin")
    with pytest.raises(IntegrityError):
        hashed(artifact)


def test_verify_trusts_no_stamp(artifact: Path, hashed: Callable[[Path], bool]) -> None:
    hashed(artifact)
    flip(artifact / "weights-00001.bin", keep_time=True)
    assert not hashed(artifact)
    with pytest.raises(IntegrityError):
        verify(artifact)


def test_another_table_makes_the_stamp_worthless(artifact: Path, hashed: Callable[[Path], bool]) -> None:
    hashed(artifact)
    change_json(artifact / "artifact.json", converter="another")
    assert hashed(artifact)


@pytest.mark.parametrize("stamp", ["", "{", "[]", '{"files": 1}'])
def test_a_broken_stamp_is_no_stamp(artifact: Path, hashed: Callable[[Path], bool], stamp: str) -> None:
    hashed(artifact)
    (artifact / ".verified.json").write_text(stamp)
    assert hashed(artifact)


def test_a_folder_that_cannot_be_written_has_its_stamp_in_the_cache(
    artifact: Path, hashed: Callable[[Path], bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_text = Path.write_text

    def read_only(path: Path, *args: Any, **kwargs: Any) -> int:
        if path.parent == artifact:
            raise PermissionError(13, "Permission denied", str(path))
        return write_text(path, *args, **kwargs)

    monkeypatch.setattr(Path, "write_text", read_only)
    assert [hashed(artifact), hashed(artifact)] == [True, False]
    assert not (artifact / ".verified.json").exists()
    assert list((tmp_path / "cache").rglob("*.json"))


def test_an_artifact_opens_where_no_stamp_can_be_kept(
    artifact: Path, hashed: Callable[[Path], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path, *args: Any, **kwargs: Any) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "write_text", refused)
    assert [hashed(artifact), hashed(artifact)] == [True, True]


def test_a_small_artifact_is_read_every_time_and_gets_no_stamp(artifact: Path) -> None:
    open_artifact(artifact)
    assert not (artifact / ".verified.json").exists()


# --- malformed artifacts -------------------------------------------------------------------------------------------


def edited(artifact: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    path = artifact / "artifact.json"
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))
    return artifact


def of(record: dict[str, Any]) -> dict[str, Any]:
    """The table entry of a q8_0 tensor that lies first in its shard or not, as it happens."""
    return record["tensors"]["layers.0.self_attn.q_proj.weight"]


def last(record: dict[str, Any]) -> str:
    """The name of the tensor that ends the last shard."""
    places = {name: (entry["shard"], entry["offset"]) for name, entry in record["tensors"].items()}
    return max(places, key=places.__getitem__)


def halved(entry: dict[str, Any]) -> dict[str, Any]:
    """Half the rows, or half the values of a vector: a size that fits, for bytes that are not its own."""
    first, *rest = entry["shape"]
    return {"shape": [first // 2, *rest], "bytes": entry["bytes"] // 2}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: r.update(format="x"), "expected `format`"),
        (lambda r: r.update(version=2), "format version 2, but this release reads version 1"),
        (lambda r: r.update(version=True), "`version`: expected int"),
        (lambda r: r.pop("tensors"), "`tensors`: expected dict, got nothing"),
        (lambda r: r.update(tensors=[]), "`tensors`: expected dict"),
        (lambda r: r.update(sourceCheckpointId=3), "`sourceCheckpointId`"),
        (lambda r: r["shards"].append(1), "expected an object"),
        (lambda r: r["shards"].append(r["shards"][0]), "listed twice"),
        (lambda r: r["files"].append(r["files"][0] | {"file": "manifest.json"}), "listed twice"),
        (lambda r: r["shards"][0].update(file="../weights-00001.bin"), "leaves its folder"),
        (lambda r: r["shards"][0].update(file="/etc/passwd"), "leaves its folder"),
        (lambda r: r["files"][0].update(file="a/../../b"), "leaves its folder"),
        (lambda r: r["files"][0].update(file="gone.json"), r"gone\.json: can't be read"),
        (lambda r: r["shards"][0].update(bytes=-1), "`bytes`: expected a size"),
        (lambda r: r["shards"][0].update(sha256="0" * 63), "`sha256`: expected 64"),
        (lambda r: r["shards"][0].update(sha256="G" * 64), "`sha256`: expected 64"),
        (lambda r: of(r).update(dtype="q3_k"), "q_proj.weight': dtype 'q3_k'; expected one of"),
        (lambda r: of(r).update(shape=[96, 0]), "`shape`: expected positive sizes"),
        (lambda r: of(r).update(shape=[96, 1 << 60]), "`shape`: expected positive sizes"),
        (lambda r: of(r).update(shape=[96, 97]), "takes .* bytes, but `bytes` is"),
        (lambda r: of(r).update(shard=99), "`shard` is 99"),
        (lambda r: of(r).update(offset=of(r)["offset"] + 1), "not aligned to 256"),
        (lambda r: of(r).update(offset=1 << 40), "do not fit"),
        (lambda r: of(r).update(offset=-256), "`offset`: expected a size"),
        (lambda r: r["tensors"].update(twin=of(r)), "overlaps the tensor before it"),
        (lambda r: r["tensors"].pop("layers.0.self_attn.q_proj.weight"), "leaves a gap|its tensors end at"),
        (lambda r: r["tensors"].pop(last(r)), "its tensors end at"),
        (lambda r: r["tensors"][last(r)].update(halved(r["tensors"][last(r)])), "its tensors end at"),
        (lambda r: r["tensors"].clear(), "its tensors end at 0"),
    ],
)
def test_a_wrong_table_is_refused_with_its_fault(
    artifact: Path, change: Callable[[dict[str, Any]], object], words: str
) -> None:
    for check in (open_artifact, verify):
        folder = Path(shutil.copytree(artifact, artifact.with_name(check.__name__)))
        with pytest.raises(FileFormatError, match=words) as caught:
            check(edited(folder, change))
        assert str(folder) in str(caught.value)


@pytest.mark.parametrize("file", ["weights-00001.bin", "tokenizer.json"])
@pytest.mark.parametrize("size", [-1, 1])
def test_a_file_of_another_size_is_refused_at_every_open(artifact: Path, file: str, size: int) -> None:
    content = (artifact / file).read_bytes()
    (artifact / file).write_bytes(content[:size] if size < 0 else content + b"\0")
    with pytest.raises(FileFormatError, match=rf"{file}: \d+ bytes, but artifact\.json says \d+"):
        open_artifact(artifact)


def test_a_missing_or_broken_manifest_names_itself(artifact: Path) -> None:
    (artifact / "manifest.json").write_text("{")
    with pytest.raises(FileFormatError, match=r"manifest\.json: not JSON at line 1"):
        open_artifact(artifact)
    (artifact / "manifest.json").unlink()
    with pytest.raises(FileFormatError, match=r"manifest\.json: can't be read"):
        verify(artifact)


def test_a_folder_that_is_no_artifact_is_not_found(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(ModelNotFoundError, match=r"no artifact\.json"):
            open_artifact(folder)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.floats(0, 1), flip_at=st.floats(0, 1), bit=st.integers(0, 7), is_cut=st.booleans())
def test_a_damaged_table_opens_right_or_raises_a_format_error(
    converted: Path, tmp_path: Path, cut: float, flip_at: float, bit: int, is_cut: bool
) -> None:
    folder = tmp_path / "damaged"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(converted, folder)
    content = bytearray((folder / "artifact.json").read_bytes())
    if is_cut:
        del content[int(cut * (len(content) - 3)) :]
    else:
        content[int(flip_at * (len(content) - 1))] ^= 1 << bit
    (folder / "artifact.json").write_bytes(content)
    try:
        opened = open_artifact(folder)
    except FileFormatError:
        return
    # A flipped bit in a name, or in a shape that keeps its size, is all that can pass.
    assert not is_cut
    assert len(opened.tensors) == len(open_artifact(converted).tensors)
