"""Long texts: what their length alone tells, who encodes them, and that nobody else waits for it."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend

from doppler_core.engine.prompt_room import PromptRoom
from doppler_core.engine.request import GenerateRequest
from doppler_core.errors import TextTooLongError
from doppler_core.text.tokenizer import Tokenizer
from tests.causal_fakes import SIZE, Opening, answer, prompt
from tests.chat_tokenizers import write_tokenizer

ROOT = Path(__file__).parent.parent
GEMMAS = (
    ROOT / "models" / "demo-chat" / "tokenizer.json",
    ROOT / "models" / "demo-embedding" / "tokenizer.json",
    ROOT / "tests" / "goldens" / "embedding" / "tokenizer.json",
)
LOADED = [Tokenizer(path, 1 << 20) for path in GEMMAS]
# Texts that have few tokens for their characters, and texts that have many.
TEXTS = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from([" ", "\n", "\t", "the ", "é", "😀", "<bos>", "temperature", "-" * 9])).map(
        "".join
    ),
    st.sampled_from([" ", "\n", "a", "=", ",parameters:{properties:{"]).map(lambda unit: unit * 70),
)


@pytest.mark.parametrize("tokenizer", LOADED, ids=lambda one: one.path.parent.name)
@given(text=TEXTS)
def test_a_text_has_no_fewer_tokens_than_its_length_tells(tokenizer: Tokenizer, text: str) -> None:
    assert 0 <= tokenizer.least_tokens(len(text)) <= len(tokenizer.encode(text, bare=True))
    assert tokenizer.least_tokens(10**6) > 1000, "it does tell something"


def _normalizer(kind: dict[str, Any]) -> Callable[[dict[str, Any]], object]:
    return lambda data: data.update(normalizer=kind)


# Changes after which a text may have fewer tokens than characters alone would tell, and a text that shows it.
DROPS = {
    "what is replaced by less": (_normalizer({"type": "Replace", "pattern": {"String": "aa"}, "content": "a"}), "a" * 99),
    "what a pattern finds": (_normalizer({"type": "Replace", "pattern": {"Regex": "a+"}, "content": "a"}), "a" * 99),
    "what a pattern drops": (_normalizer({"type": "Replace", "pattern": {"Regex": "a+"}, "content": ""}), "a" * 99),
    "characters that are composed": (_normalizer({"type": "NFC"}), "a\u0301" * 99),
    "white space at the ends": (
        _normalizer({"type": "Strip", "strip_left": True, "strip_right": True}), " " * 99,
    ),
    "what parts words": (
        lambda data: data.update(
            pre_tokenizer={"type": "Split", "pattern": {"String": "a"}, "behavior": "Removed", "invert": False}
        ),
        "a" * 99,
    ),
    "what is unknown": (lambda data: data["model"].update(byte_fallback=False), "漢" * 99),
    "bytes without a token": (
        lambda data: data["model"].update(
            vocab={f"{name}?" if name == "<0xE6>" else name: at for name, at in data["model"]["vocab"].items()}
        ),
        "漢" * 99,
    ),
    "spaces beside an added token": (
        lambda data: data["added_tokens"].append(
            {"id": 900, "content": "<x>", "single_word": False, "lstrip": True, "rstrip": True, "normalized": False,
             "special": False}
        ),
        " " * 99 + "<x>",
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", DROPS)
def test_a_tokenizer_that_drops_characters_tells_nothing(tmp_path: Path, change: str) -> None:
    path, (changed, text) = write_tokenizer(tmp_path, ("<bos>", "<eos>")), DROPS[change]
    plain = Tokenizer(path, 1000)
    data = json.loads(path.read_text("utf-8"))
    changed(data)
    path.write_text(json.dumps(data), "utf-8")
    tokenizer = Tokenizer(path, 1000)
    assert len(tokenizer.encode(text, bare=True)) < len(plain.encode(text, bare=True))
    assert (tokenizer.least_tokens(10**6), plain.least_tokens(10**6) > 0) == (0, True)


@pytest.mark.parametrize("path", GEMMAS, ids=lambda path: path.parent.name)
def test_a_long_text_has_the_ids_that_a_short_one_has(path: Path) -> None:
    text = "Two eggs, <eos> 3 cups\n\n of flour: é 😀 " * 400
    backend = Backend.from_file(str(path))
    backend.encode_special_tokens = True
    for bare in (False, True):
        assert (
            Tokenizer(path, 1 << 20).encode(text, bare)
            == backend.encode(text, add_special_tokens=not bare).ids
        )


def test_other_threads_run_while_a_long_text_is_encoded() -> None:
    tokenizer, done = LOADED[0], threading.Event()

    def encode() -> None:
        tokenizer.encode("The quick brown fox. " * 60_000)
        done.set()

    threading.Thread(target=encode).start()
    turns = 0
    while not done.is_set():
        turns += 1
        time.sleep(0.001)
    # Were the interpreter's lock held, there would be those of its switch interval, 5 ms, before and after.
    assert turns > 15


def test_a_stream_goes_on_while_a_long_text_is_encoded(opened: Opening, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    model, executor = opened()
    encode, threads, may_encode = Tokenizer.encode, set(), threading.Event()

    def slow(self: Tokenizer, text: str, bare: bool = False) -> list[int]:
        threads.add(threading.current_thread())
        assert may_encode.wait(10)
        return encode(self, text, bare)

    stepping: set[threading.Thread] = set()
    submit = executor.submit

    def watched(*arguments: Any) -> Any:
        stepping.add(threading.current_thread())
        return submit(*arguments)

    monkeypatch.setattr(Tokenizer, "encode", slow)
    monkeypatch.setattr(executor, "submit", watched)
    stream = model.submit(GenerateRequest(prompt(1, 6), max_tokens=60))
    handle = model.submit(GenerateRequest("eggs", max_tokens=2))
    assert list(stream.result(10).ids) == answer(executor.size, prompt(1, 6), 60)
    assert not handle.done()
    may_encode.set()
    assert len(handle.result(10).ids) == 2
    assert len(threads) == 1
    assert threads.isdisjoint({*stepping, threading.current_thread()})


def test_a_text_that_is_sure_to_be_too_long_is_not_encoded(opened: Opening, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    model, _ = opened()
    encoded: list[int] = []
    encode = Tokenizer.encode

    def counted(self: Tokenizer, text: str, bare: bool = False) -> list[int]:
        encoded.append(len(text))
        return encode(self, text, bare)

    monkeypatch.setattr(Tokenizer, "encode", counted)
    with pytest.raises(
        TextTooLongError, match=r"at least \d+ tokens and the context 96: shorten it"
    ) as raised:
        model.generate("a" * 10**6)
    assert encoded == []
    assert raised.value.limit == SIZE.context
    assert SIZE.context < (raised.value.tokens or 0) <= 10**6
    assert model.count_tokens("a" * 5000) == 5001, "to count is not to run"
    assert len(model.generate("a" * 5000, overflow="truncate_left", max_tokens=2).ids) == 2
    assert encoded == [5000, 5000]


def test_a_text_of_just_the_context_is_run_and_one_token_more_is_counted_exactly(opened: Opening) -> None:
    """The tokenizer has a token for each byte, and none for more of a text: nothing but encoding tells."""
    model, _ = opened()
    assert model.generate("a" * (SIZE.context - 1)).usage.prompt_tokens == SIZE.context
    with pytest.raises(TextTooLongError, match=f"the prompt has {SIZE.context + 1} tokens"):
        model.generate("a" * SIZE.context)


@pytest.mark.parametrize(
    ("longest", "tokens", "offered"),
    [(None, 40, False), (32, 40, False), (100, 40, True), (100, 100, True), (100, 101, False)],
)
def test_a_larger_context_is_advised_where_it_helps(longest: int | None, tokens: int, offered: bool) -> None:
    room = PromptRoom(32, longest=longest)
    with pytest.raises(
        TextTooLongError, match=r"shorten it.* or .*overflow=|shorten it, pass overflow="
    ) as raised:
        room.fit([5] * tokens, None, "error")
    assert (f"a larger context_length, up to {longest}" in str(raised.value)) == offered
    assert ("context_length" in str(raised.value)) == offered
