"""Safetensors files: what is in them is read as it is, what is wrong with them is said and nothing else happens."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from doppler_core.errors import FileFormatError
from doppler_core.weights.files import read_json
from doppler_core.weights.gguf import open_gguf
from doppler_core.weights.safetensors import read_folder, read_safetensors, read_sharded
from doppler_core.weights.storage import to_f32
from doppler_core.weights.table import TensorTable
from tests.weights_files import file_bytes, header_and_data, write_safetensors

A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.array([0.5, -2], np.float16)
HEADER, DATA = header_and_data({"a": A, "b": B})

per_example = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def written(tmp_path: Path, header: object, data: bytes = DATA) -> Path:
    path = tmp_path / "model.safetensors"
    path.write_bytes(file_bytes(header, data))
    return path


def changed(name: str, **fields: Any) -> dict[str, Any]:
    return HEADER | {name: HEADER[name] | fields}


def refusal(path: Path) -> str:
    """The message a file is refused with; it names the file."""
    with pytest.raises(FileFormatError) as caught:
        read_safetensors(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


def outcome(path: Path) -> tuple[TensorTable | None, str]:
    """What came of reading a file that may be good or bad: its tensors, or the refusal."""
    try:
        return read_safetensors(path), ""
    except FileFormatError as error:
        return None, str(error)


def test_the_three_float_types_are_read(tmp_path: Path) -> None:
    bf16 = np.array([[0x3F80, 0xC000]], np.uint16)
    tensors = read_safetensors(write_safetensors(tmp_path / "m.safetensors", {"a": A, "b": B, "c": bf16}))
    assert np.array_equal(to_f32(tensors["a"]), A)
    assert np.array_equal(to_f32(tensors["b"]), B[None].astype(np.float32))
    assert to_f32(tensors["c"]).tolist() == [[1.0, -2.0]]
    assert [(t.dtype, t.shape) for t in tensors.values()] == [
        ("f32", (2, 3)),
        ("f16", (2,)),
        ("bf16", (1, 2)),
    ]


def test_tensors_are_views_of_the_mapped_file(tmp_path: Path) -> None:
    tensor = read_safetensors(written(tmp_path, HEADER))["a"]
    assert not tensor.data.flags.owndata
    assert not tensor.data.flags.writeable


def test_names_of_any_alphabet_scalars_metadata_and_padded_headers_are_fine(tmp_path: Path) -> None:
    header, data = header_and_data({"层.重み": A, "s": np.float32(3).reshape(())})
    text = json.dumps(header | {"__metadata__": {"format": "pt"}}, ensure_ascii=False).encode() + b"   "
    tensors = read_safetensors(written(tmp_path, text, data))
    assert np.array_equal(to_f32(tensors["层.重み"]), A)
    assert to_f32(tensors["s"]).tolist() == [[3.0]]


def test_an_unaligned_tensor_is_read(tmp_path: Path) -> None:
    text = json.dumps(HEADER).encode()
    path = written(tmp_path, text + b" " * ((1 - len(text)) % 8))
    assert np.array_equal(to_f32(read_safetensors(path)["a"]), A)


def test_a_tensor_of_another_type_is_an_error_only_when_it_is_asked_for(tmp_path: Path) -> None:
    path = write_safetensors(tmp_path / "m.safetensors", {"a": A, "position_ids": np.arange(4)})
    tensors = read_safetensors(path)
    assert list(tensors) == ["a"]
    with pytest.raises(
        FileFormatError, match=r"m\.safetensors: tensor 'position_ids' has dtype I64; expected F32"
    ):
        tensors["position_ids"]


def test_an_unknown_name_is_answered_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"no tensor 'layers\.0\.norm'.*'layers\.0\.norm\.weight'"):
        read_safetensors(write_safetensors(tmp_path / "m.safetensors", {"layers.0.norm.weight": A}))[
            "layers.0.norm"
        ]


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (changed("b", data_offsets=[20, 24]), "tensor 'b' starts at 20 of the data and overlaps tensor 'a'"),
        (changed("b", data_offsets=[26, 30]), "leaves a gap after tensor 'a', which ends at 24"),
        (changed("a", data_offsets=[0, 23]), r"tensor 'a': F32 \[2, 3\] takes 24 bytes.*give 23"),
        (changed("a", data_offsets=[24, 0]), "takes 24 bytes"),
        (changed("a", data_offsets=[-4, 20]), "`data_offsets`: expected"),
        (changed("a", data_offsets=[0, 1 << 70]), "`data_offsets`: expected"),
        (changed("a", data_offsets=[0.0, 24.0]), "`data_offsets`: expected"),
        (changed("a", data_offsets=[0]), "`data_offsets`: expected"),
        (changed("a", shape=[2, 0]), "zero dimension"),
        (changed("a", shape=[-2, -3]), "no size"),
        (changed("a", shape=[True, 6]), "no size"),
        (changed("a", shape=[1 << 63, 1 << 63]), "no size"),
        (changed("a", shape=[1 << 40, 1 << 40]), "takes"),
        (changed("a", shape=[1] * 9), "at most 8"),
        (changed("a", shape="23"), "`shape`"),
        (changed("a", dtype="F64"), "takes 48 bytes"),
        (changed("a", dtype="F16"), "takes 12 bytes"),
        (changed("a", dtype="Q4_K"), "unknown dtype 'Q4_K'"),
        (changed("a", dtype=["F32"]), "unknown dtype"),
        (changed("b", dtype="F4", shape=[3], data_offsets=[24, 26]), "takes 1.5 bytes"),
        (HEADER | {"a": None}, "tensor 'a': expected an object"),
        (changed("a", extra=1), "tensor 'a': expected an object"),
        (HEADER | {"__metadata__": {"format": 1}}, "`__metadata__`"),
        ({}, "the header describes 0 bytes of data, the file has 28"),
        (b"[]", "no JSON object"),
        (b" {}", "no JSON object"),
        (b"{", "not JSON at line 1"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b'{"\xff": 1}', "not UTF-8 at byte 2"),
        (b'{"a":1,"a":1}', 'the key "a" stands twice'),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deep"),
        (b'{"a":' + b"9" * 10_000 + b"}", "too many digits"),
        (b'{"a":[' + b"1," * 4_000_000 + b"1]}", "more than 4000000"),
    ],
)
def test_a_wrong_header_is_refused_with_its_fault(tmp_path: Path, header: object, words: str) -> None:
    with pytest.raises(FileFormatError, match=words):
        read_safetensors(written(tmp_path, header))


@pytest.mark.parametrize("cut", range(len(file_bytes(HEADER, DATA))))
def test_a_file_cut_anywhere_is_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(file_bytes(HEADER, DATA)[:cut])
    refusal(path)


def test_bytes_after_the_data_are_refused(tmp_path: Path) -> None:
    assert "belong to no tensor" in refusal(written(tmp_path, HEADER, DATA + b"\0"))


@pytest.mark.parametrize("length", [0, 1, 1 << 20, 100_000_001, 1 << 32, (1 << 64) - 1])
def test_a_wrong_header_length_is_refused(tmp_path: Path, length: int) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(length.to_bytes(8, "little") + file_bytes(HEADER, DATA)[8:])
    refusal(path)


@per_example
@given(st.binary(max_size=200))
def test_random_bytes_never_pass_and_never_raise_anything_else(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    refusal(path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=8,
)
odd_records = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "F16", "BF16", "I64", "F4", "?"]) | json_values,
        "shape": st.lists(st.integers(-2, 5) | st.integers(), max_size=4) | json_values,
        "data_offsets": st.lists(st.integers(-8, 64) | st.integers(), min_size=2, max_size=2) | json_values,
    }
)


@per_example
@given(st.dictionaries(st.text(max_size=6), odd_records | json_values, max_size=4), st.integers(0, 96))
def test_any_header_is_either_refused_or_describes_the_data_exactly(
    tmp_path: Path, header: dict[str, Any], size: int
) -> None:
    path = written(tmp_path, header, bytes(size))
    tensors, message = outcome(path)
    if tensors is None:
        assert str(path) in message
        return
    records = [record for name, record in header.items() if name != "__metadata__"]
    assert sum(record["data_offsets"][1] - record["data_offsets"][0] for record in records) == size
    for tensor in tensors.values():
        assert to_f32(tensor).size == np.prod(tensor.shape)


@per_example
@given(st.integers(0, len(file_bytes(HEADER, DATA)) - 1), st.integers(1, 255))
def test_one_changed_byte_raises_nothing_but_a_format_error(tmp_path: Path, at: int, flip: int) -> None:
    content = bytearray(file_bytes(HEADER, DATA))
    content[at] ^= flip
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    tensors, message = outcome(path)
    if tensors is None:
        assert str(path) in message
    else:
        assert all(to_f32(tensor).size for tensor in tensors.values())


def test_a_folder_a_pipe_and_a_missing_file_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", ".", "missing"):
        refusal(tmp_path / name)


def test_a_hostile_header_takes_no_memory(tmp_path: Path) -> None:
    # 96 MB of nested lists would be gigabytes of Python objects; the child may have 1 GiB in all.
    path = tmp_path / "model.safetensors"
    path.write_bytes(file_bytes(b'{"a":[' + b"[]," * 32_000_000 + b"[]]}", b""))
    code = (
        "from doppler_core.weights.safetensors import read_safetensors\n"
        "from doppler_core.errors import FileFormatError\n"
        f"try: read_safetensors({str(path)!r})\n"
        "except FileFormatError as error: print(error)\n"
    )
    core = str(Path(__file__).parents[1] / "core")
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": core, "OPENBLAS_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "more than 4000000" in done.stdout, done.stderr


# --- shards ----------------------------------------------------------------------------------------------------


def sharded(folder: Path, weight_map: object) -> Path:
    write_safetensors(folder / "one.safetensors", {"a": A})
    write_safetensors(folder / "two.safetensors", {"b": B, "unlisted": B})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return folder


def test_shards_are_read_through_their_index(tmp_path: Path) -> None:
    tensors = read_folder(sharded(tmp_path, {"a": "one.safetensors", "b": "two.safetensors"}))
    assert {name: tensor.path.name for name, tensor in tensors.items()} == {
        "a": "one.safetensors",
        "b": "two.safetensors",
    }
    assert np.array_equal(to_f32(tensors["a"]), A)


@pytest.mark.parametrize(
    ("weight_map", "words"),
    [
        ({"a": "../one.safetensors"}, "leaves its folder"),
        ({"a": "/etc/passwd"}, "leaves its folder"),
        ({"a": "x/../../one.safetensors"}, "leaves its folder"),
        ({"a": "..\\one.safetensors"}, "leaves its folder"),
        ({"a": "C:one.safetensors"}, "leaves its folder"),
        ({"a": "one\0.safetensors"}, "is not a file name"),
        ({"a": ""}, "is not a file name"),
        ({"a": 1}, "is not a file name"),
        ({"a": "two.safetensors"}, "tensor 'a' should be in 'two.safetensors', which lacks it"),
        ({"a": "three.safetensors"}, "three.safetensors: can't be read"),
        ({}, "`weight_map`"),
        ([], "`weight_map`"),
    ],
)
def test_a_wrong_index_is_refused_with_its_fault(tmp_path: Path, weight_map: object, words: str) -> None:
    with pytest.raises(FileFormatError, match=words) as caught:
        read_sharded(sharded(tmp_path, weight_map))
    assert str(tmp_path) in str(caught.value)


def test_a_folder_without_safetensors_says_what_to_get(tmp_path: Path) -> None:
    with pytest.raises(
        FileFormatError, match=r"expected model\.safetensors or .*take the publisher's safetensors"
    ):
        read_folder(tmp_path)


@pytest.mark.parametrize("name", ["model.safetensors", "model.gguf", "config.json"])
def test_a_pointer_in_place_of_a_file_is_named_as_one(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n")
    read = {"model.safetensors": read_safetensors, "model.gguf": open_gguf, "config.json": read_json}[name]
    with pytest.raises(FileFormatError, match=f"{name}: a Git LFS pointer .* `git lfs pull`"):
        read(tmp_path / name)
