"""Tokenizers out of GGUF metadata: the ids of the publisher's tokenizer.json, and what scores mean."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf_files import finish, write_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend

from doppler_core.errors import FileFormatError, SettingsError
from doppler_core.text.gguf_tokenizer import tokenizer_files
from doppler_core.text.gguf_vocabulary import Type, merges_of, vocabulary
from doppler_core.text.tokenizer import Tokenizer
from doppler_core.weights.gguf import open_gguf
from doppler_core.weights.gguf_metadata import Metadata

CORPUS = (
    "What time does the last train leave?",
    "Caf\u00e9, na\u00efve, \u0141\u00f3d\u017a, Cafe\u0301",
    "\u6f22\u5b57\u3068\u304b\u306a \u0928\u092e\u0938\u094d\u0924\u0947 \u05e9\u05dc\u05d5\u05dd",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f600",
    "\ttab\t\ttabs\t\t\t",
    "a" + " " * 70 + "b  c   d",
    "x" + "\n" * 70 + "y\n\nz\r\n",
    "0123456789 3.14159 1,000,000",
    "\x00\x07\ufffd\u2581\u2581",
    "<bos>text<eos><start_of_turn>user\n<unused7><mask><table></td><0x41>",
    "<|turn>user\n<|tool_call>call<tool_call|>",
    "",
    " ",
)


def metadata(path: Path, writer: gguf.GGUFWriter) -> Metadata:
    finish(writer)
    return open_gguf(path).metadata


@pytest.fixture
def published(tiny_checkpoint: Path) -> Path:
    return tiny_checkpoint / "tokenizer.json"


@pytest.fixture
def from_merges(published: Path, tmp_path: Path) -> Metadata:
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "gemma-embedding")
    write_tokenizer(writer, json.loads(published.read_text()))
    writer.add_chat_template("{{ messages }}")
    writer.add_float32("general.sampling.temp", 0.75)
    return metadata(tmp_path / "m.gguf", writer)


def test_a_tokenizer_with_merges_gives_the_ids_of_its_publisher(
    from_merges: Metadata, published: Path, tmp_path: Path
) -> None:
    files = tokenizer_files(from_merges, tmp_path)
    ours, theirs = (Tokenizer(path, 512) for path in (files["tokenizer.json"], published))
    assert ours.encode_batch(CORPUS) == theirs.encode_batch(CORPUS)
    assert all(ours.decode(ours.encode(text)) == theirs.decode(theirs.encode(text)) for text in CORPUS)
    assert (ours.added, theirs.added) == (2, 2)


@pytest.mark.parametrize(
    ("more", "kind"),
    [((), str), ((" c", "b c"), list), (("#version", "#versions"), list)],
    ids=["without either", "a space", "what looks like a comment"],
)
def test_merges_are_written_short_where_each_is_read_as_it_is_meant(
    tmp_path: Path, more: tuple[str, ...], kind: type
) -> None:
    found = scored(tmp_path / "m.gguf", (*PIECES, *more))
    file = tokenizer_files(found, tmp_path)["tokenizer.json"]
    merges = json.loads(file.read_text(encoding="utf-8"))["model"]["merges"]
    assert {type(merge) for merge in merges} == {kind}
    backend = Backend.from_file(str(file))
    meant = vocabulary(found).merges
    assert json.loads(backend.to_str())["model"]["merges"] == [list(merge) for merge in meant]
    assert {left + right for left, right in meant}.issuperset(more[-1:])


def test_the_other_files_say_what_the_metadata_say(from_merges: Metadata, tmp_path: Path) -> None:
    files = tokenizer_files(from_merges, tmp_path)
    assert json.loads(files["tokenizer_config.json"].read_text()) == {
        "add_bos_token": True,
        "add_eos_token": True,
        "bos_token": "<bos>",
        "eos_token": "<eos>",
        "unk_token": "<unk>",
        "pad_token": "<pad>",
    }
    assert json.loads(files["generation_config.json"].read_text()) == {
        "bos_token_id": 2,
        "pad_token_id": 0,
        "eos_token_id": [1],
        "do_sample": True,
        "temperature": 0.75,
    }
    assert files["chat_template.jinja"].read_text() == "{{ messages }}"


def test_the_files_are_made_once_for_equal_metadata(from_merges: Metadata, tmp_path: Path) -> None:
    first = tokenizer_files(from_merges, tmp_path)["tokenizer.json"]
    written = first.stat().st_mtime_ns
    assert tokenizer_files(from_merges, tmp_path)["tokenizer.json"].stat().st_mtime_ns == written
    first.unlink()
    assert tokenizer_files(from_merges, tmp_path)["tokenizer.json"] == first
    assert first.is_file()


def test_a_cache_that_cant_be_written_is_named(from_merges: Metadata, tmp_path: Path) -> None:
    (tmp_path / "tokenizers").write_text("in the way")
    with pytest.raises(SettingsError, match=r"the tokenizer can't be written.*cache_dir"):
        tokenizer_files(from_merges, tmp_path)


BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
HEAD = [
    "<pad>",
    "<eos>",
    "<bos>",
    "<unk>",
    "<mask>",
    "<unused0>",
    "<start_of_image>",
    "<|tool>",
    "\n",
    "\n\n",
    "  ",
]
KINDS = [Type.CONTROL] * 6 + [Type.USER_DEFINED] * 5


def scored(path: Path, pieces: Sequence[str], **changes: object) -> Metadata:
    """A vocabulary of scores, in the layout of Gemma 3's: marks, bytes, pieces by rank, letters."""
    letters = sorted({letter for piece in pieces for letter in piece} | {"\u2581"})
    tokens = [*HEAD, *BYTES, *pieces, *(letter for letter in letters if letter not in pieces)]
    types = [*KINDS, *[Type.BYTE] * 256]
    scores = [-1000.0] * len(HEAD) + [0.0] * 256 + [-float(rank) for rank in range(len(tokens) - len(types))]
    types += [Type.NORMAL] * (len(tokens) - len(types))
    parts = {
        "tokens": tokens,
        "types": [int(kind) for kind in types],
        "scores": scores,
        "model": "llama",
    } | changes
    writer = gguf.GGUFWriter(path, "gemma3")
    writer.add_tokenizer_model(str(parts["model"]))
    writer.add_token_list(parts["tokens"])  # type: ignore[arg-type]
    writer.add_token_types(parts["types"])  # type: ignore[arg-type]
    if parts["scores"] is not None:
        writer.add_token_scores(parts["scores"])  # type: ignore[arg-type]
    writer.add_bos_token_id(int(str(parts.get("bos", 2))))
    writer.add_eos_token_id(1)
    return metadata(path, writer)


def merged_by_scores(text: str, scores: dict[str, float]) -> list[str]:
    """What scores mean, by their definition: join the two neighbours of the best score, the first of equals."""
    parts = list(text.replace(" ", "\u2581"))
    while True:
        pairs = [(scores[a + b], -i) for i, (a, b) in enumerate(itertools.pairwise(parts)) if a + b in scores]
        if not pairs:
            return parts
        at = -max(pairs)[1]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


PIECES = (
    "ab",
    "abc",
    "bc",
    "ca",
    "\u2581a",
    "cab",
    "abcab",
    "\u2581abc",
    "aa",
    "aaa",
    "aaaa",
    "\u2581\u2581a",
    "bcca",
)


@settings(max_examples=200)
@given(order=st.permutations(PIECES), text=st.text("abc ", max_size=24))
def test_scores_become_merges_that_do_what_scores_mean(order: list[str], text: str) -> None:
    tokens = [*order, "a", "b", "c", "\u2581"]
    scores = [-float(rank) for rank in range(len(tokens))]
    merges = merges_of(tokens, [Type.NORMAL] * len(tokens), scores)
    model = {"type": "BPE", "vocab": {token: i for i, token in enumerate(tokens)}, "merges": merges}
    normalizer = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    data = {"version": "1.0", "added_tokens": [], "normalizer": normalizer, "model": model}
    backend = Backend.from_str(json.dumps(data))
    assert backend.encode(text).tokens == merged_by_scores(text, dict(zip(tokens, scores, strict=True)))


def test_texts_spell_what_the_publisher_lets_them_spell_and_no_mark(tmp_path: Path) -> None:
    files = tokenizer_files(scored(tmp_path / "m.gguf", PIECES), tmp_path)
    tokenizer = Tokenizer(files["tokenizer.json"], 1000)
    spelled = {
        token: tokenizer.encode(token) == [2, tokenizer.token_id(token.replace(" ", "\u2581"))]
        for token in HEAD
    }
    # Gemma 3's publisher has these as added tokens that are not special.
    assert [token for token, found in spelled.items() if found] == [
        "<mask>",
        "<unused0>",
        "\n",
        "\n\n",
        "  ",
    ]
    assert tokenizer.encode("\u2581\u2581") == [2, HEAD.index("  ")]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "bert"}, r"tokenizer\.ggml\.model is 'bert'; expected one of llama, gpt2, gemma4"),
        (
            {"tokens": ["a", "b"], "types": [1, 1], "scores": [0.0, 0.0]},
            "'<unk>' is missing: this is no Gemma",
        ),
        ({"types": [1, 1]}, r"token_type: expected a number for each of \d+ tokens, found 2 of int32"),
        ({"scores": None}, r"the metadata lack tokenizer\.ggml\.scores"),
        ({"scores": [1.0]}, r"scores: expected a number for each of \d+ tokens, found 1 of float32"),
        ({"bos": 5000}, r"bos_token_id is 5000, and there are \d+ tokens"),
    ],
)
def test_what_is_no_gemma_tokenizer_is_refused(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    found = scored(tmp_path / "m.gguf", PIECES, **changes)
    with pytest.raises(FileFormatError, match=message):
        tokenizer_files(found, tmp_path)


def test_scores_that_are_no_numbers_and_double_tokens_are_refused(tmp_path: Path) -> None:
    good = scored(tmp_path / "a.gguf", PIECES)
    tokens = vocabulary(good).tokens
    scores = [np.nan, *([0.0] * (len(tokens) - 1))]
    with pytest.raises(FileFormatError, match="scores: a number that is none"):
        vocabulary(scored(tmp_path / "b.gguf", PIECES, scores=scores))
    with pytest.raises(FileFormatError, match="tokens: a token occurs twice"):
        vocabulary(scored(tmp_path / "c.gguf", PIECES, tokens=["<eos>", *tokens[1:]]))


def test_a_merge_of_one_token_is_refused(published: Path, tmp_path: Path) -> None:
    tokenizer = json.loads(published.read_text())
    tokenizer["model"]["merges"][3] = ["ab"]
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "gemma4")
    write_tokenizer(writer, tokenizer)
    with pytest.raises(FileFormatError, match="merges: merge 3: expected two tokens, found 'ab'"):
        vocabulary(metadata(tmp_path / "m.gguf", writer))
