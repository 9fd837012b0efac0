"""GGUF files: what the `gguf` package writes is read back, and what lies about itself is refused quickly and cheaply."""

import contextlib
import struct
import time
import tracemalloc
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from gguf import quants
from gguf_files import finish, write_tensor
from hypothesis import given, settings
from hypothesis import strategies as st

from doppler_core.errors import FileFormatError
from doppler_core.weights.gguf import is_gguf, open_gguf
from doppler_core.weights.gguf_metadata import Texts
from doppler_core.weights.gguf_parts import open_parts
from doppler_core.weights.gguf_types import TYPES
from doppler_core.weights.storage import to_f32

U32, F32, TEXT, ARRAY = 4, 6, 8, 9


def text(value: str | bytes) -> bytes:
    value = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(value)) + value


def pair(key: str | bytes, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def array(kind: int, count: int, values: bytes = b"") -> bytes:
    return struct.pack("<IQ", kind, count) + values


def described(name: str | bytes, sizes: tuple[int, ...], kind: int = 0, offset: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, offset)


def raw(
    pairs: list[bytes] | None = None,
    tensors: list[bytes] | None = None,
    data: bytes = b"",
    *,
    counts: tuple[int, int] | None = None,
    version: int = 3,
    alignment: int = 32,
) -> bytes:
    """A file of any parts, right or wrong."""
    pairs = [pair("general.architecture", TEXT, text("gemma3"))] if pairs is None else pairs
    tensors = [] if tensors is None else tensors
    count, count_pairs = (len(tensors), len(pairs)) if counts is None else counts
    head = b"GGUF" + struct.pack("<IQQ", version, count, count_pairs) + b"".join(pairs) + b"".join(tensors)
    return head + bytes(-len(head) % alignment if data else 0) + data


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.gguf"


def test_what_the_gguf_package_writes_is_read_back(file: Path) -> None:
    random = np.random.default_rng(0)
    kinds = (Type.F32, Type.F16, Type.BF16, Type.Q4_0, Type.Q5_0, Type.Q8_0, Type.Q4_K)
    written = {kind.name: random.standard_normal((3, 5, 256)).astype(np.float32) for kind in kinds}
    writer = gguf.GGUFWriter(file, "gemma3")
    writer.add_block_count(3)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_token_list(["a", "\u2581b", ""])
    writer.add_token_scores([0.0, -1.5, -2.0])
    writer.add_sliding_window_pattern([True, False])
    for kind in kinds:
        write_tensor(writer, kind.name, written[kind.name], kind)
    finish(writer)

    found = open_gguf(file)
    assert found.metadata.need("gemma3.block_count", int) == 3
    assert found.metadata.need("gemma3.attention.layer_norm_rms_epsilon", float) == 1e-6
    assert found.metadata.need("tokenizer.ggml.tokens", Texts).decoded() == ["a", "\u2581b", ""]
    assert found.metadata.need("tokenizer.ggml.scores", np.ndarray).tolist() == [0.0, -1.5, -2.0]
    assert found.metadata.need("gemma3.attention.sliding_window_pattern", np.ndarray).tolist() == [
        True,
        False,
    ]
    theirs = {tensor.name: tensor for tensor in gguf.GGUFReader(file).tensors}
    assert set(found.tensors) == set(theirs)
    for name, tensor in found.tensors.items():
        assert (tensor.shape, tensor.dtype) == ((3, 5, 256), name.lower())
        expected = quants.dequantize(theirs[name].data, theirs[name].tensor_type).reshape(15, 256)
        assert np.array_equal(to_f32(tensor), expected)
    assert found.head.size <= theirs["F32"].data_offset < found.head.size + 32


def test_the_types_are_those_of_the_gguf_package() -> None:
    sizes = {int(kind): size for kind, size in gguf.constants.GGML_QUANT_SIZES.items()}
    assert {code: (kind.block.values, kind.block.bytes) for code, kind in TYPES.items()} == sizes
    assert all(kind.name == Type(code).name for code, kind in TYPES.items())


def test_a_type_that_is_not_read_is_an_error_only_where_it_is_asked_for(file: Path) -> None:
    file.write_bytes(raw(None, [described("a", (1,)), described("b", (32,), 20, 32)], bytes(64)))
    tensors = open_gguf(file).tensors
    assert list(tensors) == ["a"]
    with pytest.raises(FileFormatError, match=r"tensor 'b' has type IQ4_NL; expected one of F32, .*Q6_K"):
        tensors["b"]


def test_a_gguf_file_is_told_by_its_name_or_its_first_bytes(tmp_path: Path) -> None:
    for name, content, expected in (
        ("a.GGUF", b"", True),
        ("blob", b"GGUF\3", True),
        ("other", b"PK", False),
    ):
        (tmp_path / name).write_bytes(content)
        assert is_gguf(tmp_path / name) is expected
    assert not is_gguf(tmp_path)


@pytest.mark.parametrize(
    ("key", "kind", "message"),
    [
        ("a.whole", str, "a.whole: expected str, found int 7"),
        ("a.text", int, "a.text: expected int, found str"),
        ("a.flag", int, "a.flag: expected int, found bool"),
        ("a.whole", Texts, "a.whole: expected Texts, found int"),
        ("a.none", int, "the metadata lack a.none"),
    ],
)
def test_a_value_of_another_type_names_its_key(file: Path, key: str, kind: type, message: str) -> None:
    pairs = [
        pair("a.whole", U32, struct.pack("<I", 7)),
        pair("a.text", TEXT, text("7")),
        pair("a.flag", 7, b"\1"),
    ]
    file.write_bytes(raw(pairs))
    with pytest.raises(FileFormatError, match=message):
        open_gguf(file).metadata.need(key, kind)


HUGE = 1 << 60
ONE = described("w", (8, 4))
HOSTILE = {
    "empty": (b"", "0 bytes, too short"),
    "no magic": (b"GGML" + bytes(40), "begins with b'GGML'"),
    "version 1": (raw(version=1), "version 1 of GGUF"),
    "version 4": (raw(version=4), "version 4 of GGUF"),
    "big-endian": (raw(version=3 << 24), "a big-endian file"),
    "2^60 tensors": (raw(counts=(HUGE, 1)), f"{HUGE} tensors can't be"),
    "2^60 pairs": (raw(counts=(0, HUGE)), f"{HUGE} metadata pairs can't be"),
    "2^63 tensors": (raw(counts=(1 << 63, 1)), f"{1 << 63} tensors can't be"),
    "2^63 pairs": (raw(counts=(0, 1 << 63)), f"{1 << 63} metadata pairs can't be"),
    "more pairs than bytes": (raw([], counts=(0, 50)) + bytes(600), "50 metadata pairs can't be"),
    "more tensors than read": (raw([], counts=(1 << 17, 0)) + bytes(5 << 20), "131072 tensors can't be"),
    "2^60 bytes of key": (raw([struct.pack("<Q", HUGE) + bytes(20)]), "key 0 at byte 32 takes"),
    "key twice": (raw([pair("a", U32, bytes(4))] * 2), "the key 'a' occurs twice"),
    "key not utf-8": (raw([pair(b"\xff", U32, bytes(4))]), "key 0 at byte 32 is not UTF-8"),
    "text not utf-8": (raw([pair("a", TEXT, text(b"\xc3("))]), "is not UTF-8"),
    "2^60 bytes of text": (raw([pair("a", TEXT, struct.pack("<Q", HUGE))]), "a at byte 45 takes"),
    "unknown type": (raw([pair("a", 13, bytes(8))]), "a: unknown type 13"),
    "bool of 2": (raw([pair("a", 7, b"\2")]), "a bool of 2"),
    "not a number": (raw([pair("a", F32, struct.pack("<f", np.nan))]), "a number that is nan"),
    "array of arrays": (raw([pair("a", ARRAY, array(ARRAY, 1, array(U32, 0)))]), "arrays in an array"),
    "array of unknown": (raw([pair("a", ARRAY, array(99, 1))]), "an array of unknown type 99"),
    "2^60 numbers": (raw([pair("a", ARRAY, array(10, HUGE))]), "bytes are needed at byte"),
    "2^61 numbers, which wrap": (raw([pair("a", ARRAY, array(10, 1 << 61))]), "bytes are needed at byte"),
    "2^60 texts": (raw([pair("a", ARRAY, array(TEXT, HUGE))]), f"{HUGE} texts"),
    "a text beyond the end": (raw([pair("a", ARRAY, array(TEXT, 2, text("x") + b"\xff" * 8))]), "or cut off"),
    "two million empty texts": (
        raw([pair(key, ARRAY, array(TEXT, 1 << 20, bytes(8 << 20))) for key in "ab"]),
        "b: 1048576 texts; 1048576 are read in all arrays together",
    ),
    "alignment 0": (raw([pair("general.alignment", U32, bytes(4))]), "general.alignment: expected a power"),
    "alignment 3": (raw([pair("general.alignment", U32, struct.pack("<I", 3))]), "found 3"),
    "alignment 24": (raw([pair("general.alignment", U32, struct.pack("<I", 24))]), "found 24"),
    "alignment 2^31": (raw([pair("general.alignment", U32, struct.pack("<I", 1 << 31))]), "found 2147483648"),
    "alignment a text": (raw([pair("general.alignment", TEXT, text("32"))]), "expected int, found str"),
    "tensor twice": (raw(None, [ONE, ONE], bytes(128)), "'w' is described twice"),
    "no sizes": (raw(None, [described("w", ())], bytes(32)), "0 sizes; expected 1 to 4"),
    "five sizes": (raw(None, [described("w", (1,) * 5)], bytes(4)), "5 sizes; expected 1 to 4"),
    "a million sizes": (raw(None, [text("w") + struct.pack("<I", 10**6) + bytes(40)]), "1000000 sizes; expected 1"),
    "2^40 bytes of name": (raw(None, [struct.pack("<Q", 1 << 40) + bytes(60)]), "the name of tensor 0 .* takes"),
    "a size of 0": (raw(None, [described("w", (8, 0))], bytes(64)), r"\[0, 8\] has a size that is none"),
    "a size of 2^60": (raw(None, [described("w", (8, HUGE))], bytes(64)), "has a size that is none"),
    "a product of 2^64": (raw(None, [described("w", (1 << 32, 1 << 32))], bytes(64)), "it describes 73786976294838"),
    "a broken block": (raw(None, [described("w", (33,), 8)], bytes(96)), "rows of 33 values do not fill whole Q8_0"),
    "unknown tensor type": (raw(None, [described("w", (8,), 4)], bytes(96)), "unknown type 4"),
    "not aligned": (raw(None, [described("w", (8,), 0, 4)], bytes(96)), "at 4 of the data is not where it should be"),
    "overlapping": (
        raw(None, [ONE, described("v", (8,), 0, 96)], bytes(160)),
        "'v' at 96 of the data overlaps tensor 'w': expected it at 128",
    ),
    "a gap": (raw(None, [ONE, described("v", (8,), 0, 160)], bytes(192)), "'v' at 160 of the data is not where"),
    "an offset of 2^63": (raw(None, [described("w", (8,), 0, 1 << 63)], bytes(32)), "is not where it should be"),
    "truncated data": (raw(None, [ONE], bytes(127)), "describes 128 bytes of data and has 127: it is truncated"),
    "no data": (raw(None, [ONE]), "describes 128 bytes of data and has 0"),
    "a tail": (raw(None, [ONE], bytes(200)), "72 bytes at its end belong to no tensor"),
    "name not utf-8": (raw(None, [described(b"\xff", (8,))], bytes(32)), "the name of tensor 0 .* is not UTF-8"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_in_under_a_second_and_50_mb(file: Path, name: str) -> None:
    content, message = HOSTILE[name]
    file.write_bytes(content)
    start = time.perf_counter()
    with pytest.raises(FileFormatError, match=message) as caught:
        open_gguf(file)
    assert time.perf_counter() - start < 1
    assert str(file) in str(caught.value)
    tracemalloc.start()  # it slows down whatever allocates: the time is taken without it
    try:
        with pytest.raises(FileFormatError):
            open_gguf(file)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


def small_file() -> bytes:
    pairs = [
        pair("general.architecture", TEXT, text("gemma3")),
        pair("a.tokens", ARRAY, array(TEXT, 3, text("a") + text("") + text("\u2581b"))),
        pair("a.scores", ARRAY, array(F32, 2, struct.pack("<2f", 0, -1))),
        pair("a.flag", 7, b"\1"),
        pair("a.number", 12, struct.pack("<d", 2.5)),
    ]
    tensors = [described("w", (8, 4)), described("q", (32, 2), 8, 128)]
    return raw(pairs, tensors, bytes(128 + 96))


SMALL = small_file()


@settings(max_examples=400)
@given(
    edits=st.lists(st.tuples(st.integers(0, len(SMALL) - 1), st.binary(min_size=1, max_size=8)), max_size=4),
    length=st.one_of(st.just(len(SMALL)), st.integers(0, len(SMALL) + 40)),
)
def test_a_changed_file_is_read_or_refused_never_anything_else(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[int, bytes]], length: int
) -> None:
    content = bytearray(SMALL)
    for place, values in edits:
        content[place : place + len(values)] = values
    path = tmp_path_factory.getbasetemp() / "changed.gguf"
    path.write_bytes(bytes(content[:length]).ljust(length, b"\0"))
    with contextlib.suppress(FileFormatError), np.errstate(all="ignore"):
        found = open_gguf(path)
        for value in found.metadata.values.values():
            if isinstance(value, Texts):
                value.decoded()
        for tensor in found.tensors.values():
            assert to_f32(tensor).shape == (tensor.rows, tensor.columns)


@pytest.mark.parametrize("sixteenths", range(16))
def test_a_file_cut_anywhere_is_truncated(file: Path, sixteenths: int) -> None:
    file.write_bytes(SMALL[: len(SMALL) * sixteenths // 16])
    with pytest.raises(FileFormatError, match=r"model\.gguf"):
        open_gguf(file)


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    """A model in three files; the first part's path."""
    for number in range(3):
        writer = gguf.GGUFWriter(tmp_path / f"m-{number + 1:05}-of-00003.gguf", "gemma3")
        writer.add_uint16("split.no", number)
        writer.add_uint16("split.count", 3)
        writer.add_int32("split.tensors.count", 3)
        writer.add_tensor(f"w{number}", np.full((2, 8), number, np.float32))
        finish(writer)
    return tmp_path / "m-00001-of-00003.gguf"


@pytest.mark.parametrize("number", [1, 3])
def test_a_model_in_parts_is_one_whichever_part_is_named(parts: Path, number: int) -> None:
    found = open_parts(parts.with_name(f"m-{number:05}-of-00003.gguf"))
    assert found.path == parts
    assert {name: to_f32(tensor)[0, 0] for name, tensor in found.tensors.items()} == {
        "w0": 0,
        "w1": 1,
        "w2": 2,
    }


def test_a_missing_a_foreign_and_a_renamed_part_are_named(parts: Path) -> None:
    second = parts.with_name("m-00002-of-00003.gguf")
    renamed = parts.rename(parts.with_name("first.gguf"))
    with pytest.raises(FileFormatError, match="one of 3 parts, so its name must end in -00001-of-00003"):
        open_parts(renamed)
    renamed.rename(parts)
    content = second.read_bytes()
    second.write_bytes(parts.read_bytes())
    with pytest.raises(FileFormatError, match=r"expected split\.no 1 and split\.count 3, found 0 and 3"):
        open_parts(parts)
    second.unlink()
    with pytest.raises(FileFormatError, match="this part of 3 is missing"):
        open_parts(parts)
    second.write_bytes(content)
    assert len(open_parts(parts).tensors) == 3
