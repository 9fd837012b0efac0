"""Tokenizing and prompts: text is text, whatever it says, and any str has ids."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doppler_core.errors import FileFormatError, InputError
from doppler_core.text.prompt import choose_prompt, prompted
from doppler_core.text.tokenizer import Tokenizer, well_formed

FILE = Path(__file__).parent / "goldens" / "embedding" / "tokenizer.json"
DOCUMENT = "title: none | text: "


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(FILE, 512)


@pytest.mark.parametrize("control", ["<bos>", "<eos>", "<pad>", "a <eos> b", "<bos><bos>"])
def test_the_name_of_a_control_token_is_plain_text(tokenizer: Tokenizer, control: str) -> None:
    ids = tokenizer.encode(control)
    assert (ids[0], ids[-1]) == (2, 1)
    assert all(token > 3 for token in ids[1:-1])


@given(st.text(st.characters(exclude_categories=[])))
def test_any_str_has_ids_inside_the_table(text: str) -> None:
    ids = Tokenizer(FILE, 512).encode(well_formed(text))
    assert all(0 <= token < 512 for token in ids)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_text_without_surrogates_is_well_formed_already(text: str) -> None:
    assert well_formed(text) == text


def test_surrogates_are_joined_or_replaced() -> None:
    assert well_formed("a\ud83d\ude00b") == "a\U0001f600b"
    assert well_formed("a\ud800b\udc00") == "a\ufffdb\ufffd"


def test_an_id_beyond_the_table_is_an_error_and_not_a_read_beyond_it() -> None:
    with pytest.raises(InputError, match="300 rows"):
        Tokenizer(FILE, 300).encode("What time does the last train leave?")


def write_tokenizer(path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    data = json.loads(FILE.read_text())
    change(data)
    path.write_text(json.dumps(data))
    return path


FAULTS: dict[str, Callable[[dict[str, Any]], object]] = {
    "panics when it loads": lambda data: data.update(
        normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA"}
    ),
    "panics when it encodes": lambda data: data["post_processor"].update(special_tokens={}),
    "has no token for what it does not know": lambda data: data["model"].update(
        vocab={"a": 4}, merges=[], unk_token="<nope>"
    ),
    "has another model": lambda data: data.update(
        model={"type": "WordLevel", "vocab": {"a": 5}, "unk_token": "<nope>"}
    ),
}


@pytest.mark.parametrize("change", FAULTS.values(), ids=FAULTS.keys())
def test_every_fault_of_the_library_names_the_file(
    tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    path = write_tokenizer(tmp_path / "tokenizer.json", change)
    for encode in (lambda found: found.encode("eggs"), lambda found: found.encode_batch(["eggs", "milk"])):
        with pytest.raises(FileFormatError) as caught:
            encode(Tokenizer(path, 512))
        assert str(path) in str(caught.value)


def test_what_a_file_says_of_cutting_padding_and_dropping_merges_is_not_done(tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        data["model"]["dropout"] = 0.9
        data["truncation"] = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
        data["padding"] = {
            "strategy": {"Fixed": 64},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "<pad>",
        }

    changed = Tokenizer(write_tokenizer(tmp_path / "tokenizer.json", change), 512)
    plain = Tokenizer(FILE, 512)
    text = "What time does the last train leave?"
    assert changed.encode_batch([text] * 20) == [plain.encode(text)] * 20


def test_the_tokens_around_a_text_are_counted(tmp_path: Path) -> None:
    assert Tokenizer(FILE, 512).added == 2
    assert (
        Tokenizer(write_tokenizer(tmp_path / "t.json", lambda d: d.update(post_processor=None)), 512).added
        == 0
    )


def test_a_file_that_is_no_tokenizer_is_named(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    with pytest.raises(FileFormatError, match=r"tokenizer\.json"):
        Tokenizer(path, 512)


@pytest.mark.parametrize("text", ["", "   ", "\n\t "])
def test_a_text_of_white_space_is_the_prompt_alone(text: str) -> None:
    assert prompted(text, DOCUMENT) == DOCUMENT.strip()


def test_white_space_inside_the_text_stays_and_around_the_whole_goes() -> None:
    assert prompted(" a \n b\n", DOCUMENT) == "title: none | text:  a \n b"


def test_a_title_goes_where_the_prompt_says_none() -> None:
    assert prompted("x", DOCUMENT, " The  sea ") == "title: The  sea | text: x"
    assert prompted("x", DOCUMENT, " ") == "title: none | text: x"


def test_a_title_without_a_place_is_an_error() -> None:
    with pytest.raises(InputError, match="has no 'title: none'"):
        prompted("x", "query: ", "Sea")


def test_a_prompt_is_found_in_any_case_and_a_wrong_name_gets_the_nearest() -> None:
    prompts = {"query": "q", "Clustering": "c"}
    assert choose_prompt(prompts, "clustering") == "c"
    with pytest.raises(InputError, match="did you mean 'query'"):
        choose_prompt(prompts, "querry")
