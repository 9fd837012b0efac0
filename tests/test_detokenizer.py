"""Text from ids one at a time: whole characters, in time, and the same text however long one waits."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, models
from tokenizers import Tokenizer as Backend

from doppler_core.text.detokenizer import Detokenizer
from doppler_core.text.tokenizer import Tokenizer

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
WORDS = ["\u2581", "\u2581salt", "salt", "\u2581\u2581\u2581", "\n\n", "é", "🚂", "\ufffd", "<0x0>", "<b>"]
FIRST_BYTE, FIRST_WORD = 3, 3 + len(BYTES)


@pytest.fixture(scope="module", params=["gemma", "first space stripped"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """Control tokens, all bytes, words; with the decoder of Gemma, and with the one of other SentencePiece files."""
    vocabulary = {token: number for number, token in enumerate(["<unk>", "<bos>", "<eos>", *BYTES, *WORDS])}
    backend = Backend(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True))
    backend.add_special_tokens([AddedToken("<bos>"), AddedToken("<eos>")])
    backend.add_tokens([AddedToken("<b>")])
    parts = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    strip = [decoders.Strip(" ", 1, 0)] if request.param != "gemma" else []
    backend.decoder = decoders.Sequence([*parts, *strip])
    file = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    backend.save(str(file))
    return Tokenizer(file, len(vocabulary))


def ids_of_bytes(data: bytes) -> list[int]:
    return [FIRST_BYTE + byte for byte in data]


def word(token: str) -> int:
    return FIRST_WORD + WORDS.index(token)


def run(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    detokenizer = Detokenizer(tokenizer)
    return [*map(detokenizer.push, ids), detokenizer.finish()]


def test_a_character_of_four_byte_tokens_comes_whole_with_its_last_one(tokenizer: Tokenizer) -> None:
    shown = run(tokenizer, ids_of_bytes("\U0001fae8\U0001fabf".encode()))
    assert shown == ["", "", "", "\U0001fae8", "", "", "", "\U0001fabf", ""]


def test_a_character_that_the_end_cuts_is_one_mark_and_hurts_none_before_it(tokenizer: Tokenizer) -> None:
    assert run(tokenizer, ids_of_bytes("é\U0001fae8".encode()[:-1])) == ["", "é", "", "", "", "\ufffd"]


def test_bytes_that_nothing_can_mend_do_not_hold_up_the_text(tokenizer: Tokenizer) -> None:
    assert run(tokenizer, [*ids_of_bytes(b"\xff\xc3"), word("salt")]) == ["\ufffd", "", "\ufffdsalt", ""]


def test_the_space_before_the_first_word_stays(tokenizer: Tokenizer) -> None:
    assert run(tokenizer, [word("\u2581salt"), word("\u2581salt")]) == [" salt", " salt", ""]


def test_control_tokens_and_ids_without_a_token_have_no_text(tokenizer: Tokenizer) -> None:
    assert run(tokenizer, [1, word("salt"), 2, 10**6]) == ["", "salt", "", "", ""]


def test_what_only_looks_like_a_byte_or_a_control_token_is_text(tokenizer: Tokenizer) -> None:
    assert run(tokenizer, [word("<0x0>"), word("<b>")]) == ["<0x0>", "<b>", ""]


@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_the_bytes_of_any_text_give_the_text_and_never_half_a_character(
    tokenizer: Tokenizer, text: str
) -> None:
    shown = run(tokenizer, ids_of_bytes(text.encode()))
    assert "".join(shown) == text
    assert all("\ufffd" not in piece for piece in shown) or "\ufffd" in text


@given(ids=st.lists(st.integers(0, FIRST_WORD + len(WORDS) - 1)))
def test_any_ids_give_what_their_bytes_say(tokenizer: Tokenizer, ids: list[int]) -> None:
    data = b"".join(map(tokenizer.piece, ids))
    assert "".join(run(tokenizer, ids)) == data.decode("utf-8", "replace")


def test_the_text_is_the_one_that_the_library_gives_for_all_ids_at_once() -> None:
    """But for runs of broken bytes: the library makes a mark of each of them, of good ones before them too."""
    whole = Tokenizer(Path(__file__).parent / "goldens" / "embedding" / "tokenizer.json", 512)
    for text in ("the last train", "  two  spaces", "🚂 12 eggs\n\n\tflour", "é\u0301 \u4f60\u597d"):
        ids = whole.encode(text)
        assert "".join(run(whole, ids)) == whole.decode(ids) == text
