"""Requests to a causal driver: prompts, ends, limits, masks, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from doppler_core.engine.request import GenerateRequest
from doppler_core.errors import DeviceError, InputError
from doppler_core.plan.sampling import BROKEN, NO_TOKEN
from tests.canvas_fakes import Recorded
from tests.causal_fakes import (
    BEGIN,
    END,
    FIRST_BYTE,
    MASK_WORDS,
    SIZE,
    VOCABULARY,
    Opening,
    answer,
    prompt,
)


def test_no_seed_is_another_seed_each_time(opened: Opening) -> None:
    model, _ = opened()
    ids = prompt(1, 3)
    assert (
        model.generate(ids, max_tokens=8, temperature=1.5).ids
        != model.generate(ids, max_tokens=8, temperature=1.5).ids
    )
    seeded = [model.generate(ids, max_tokens=8, temperature=1.5, seed=42).ids for _ in range(2)]
    assert seeded[0] == seeded[1]


@pytest.mark.parametrize("asked", [{"steps": 3}, {"drafts": True}, {"noise": Recorded(1)}])
def test_what_only_canvases_have_is_refused(opened: Opening, asked: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(asked))}: this model makes one token after the other"):
        opened()[0].generate(prompt(1, 3), **asked)


class Alternating:
    """Allows the tokens above 50 whose number is odd, then even, then odd; after six tokens none."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def words(self) -> npt.NDArray[np.uint32]:
        bits = np.zeros(32 * MASK_WORDS, np.uint8)
        bits[51 + len(self.seen) % 2 : VOCABULARY : 2] = len(self.seen) < 6
        return np.packbits(bits, bitorder="little").view(np.uint32)

    def accept(self, token: int) -> None:
        self.seen.append(token)


def test_a_mask_limits_each_token_by_those_before_it(opened: Opening) -> None:
    model, executor = opened()
    masks = [Alternating(), Alternating()]
    asked = [
        GenerateRequest(prompt(number, 8), max_tokens=6, mask=lambda one=one: one)
        for number, one in enumerate(masks)
    ]  # type: ignore[misc]
    handles = [model.submit(one) for one in (*asked, GenerateRequest(prompt(3, 8), max_tokens=30))]
    for mask, handle in zip(masks, handles, strict=False):
        ids = handle.result(10).ids
        assert [token % 2 for token in ids] == [1, 0, 1, 0, 1, 0]
        assert min(ids) > 50
        assert mask.seen == list(ids[:-1])
    assert list(handles[2].result(10).ids) == answer(executor.size, prompt(3, 8), 30)
    with pytest.raises(InputError, match="no token is allowed"):
        model.generate(prompt(0, 8), max_tokens=7, mask=Alternating)


class Panic(BaseException):
    """As what a library in another language raises where it gives up."""


class Breaking(Alternating):
    """Raises, or gives what is no mask, from the first token that came."""

    def __init__(self, fault: object) -> None:
        super().__init__()
        self.fault = fault

    def accept(self, token: int) -> None:
        super().accept(token)
        if isinstance(self.fault, BaseException):
            raise self.fault

    def words(self) -> Any:
        return self.fault if self.seen else super().words()


ALL = np.full(MASK_WORDS, 2**32 - 1, np.uint32)


@pytest.mark.parametrize(
    ("fault", "kind", "says"),
    [
        (ValueError("no such state"), ValueError, "no such state"),
        (Panic("unreachable"), Panic, "unreachable"),
        (None, InputError, "mask.words.. is NoneType: expected an array of uint32"),
        ([1, 2], InputError, "mask.words.. is list"),
        (ALL[1:], InputError, "mask.words.. is uint32 of shape"),
        (np.append(ALL, ALL), InputError, "mask.words.. is uint32 of shape"),
        (ALL.astype(np.int64), InputError, "mask.words.. is int64"),
    ],
    ids=["error", "panic", "none", "list", "short", "long", "signed"],
)
def test_a_mask_that_breaks_hurts_no_other_request(
    opened: Opening, fault: object, kind: type[BaseException], says: str
) -> None:
    model, executor = opened()
    other = model.submit(GenerateRequest(prompt(3, 8), max_tokens=30))
    with pytest.raises(kind, match=says):
        model.generate(prompt(0, 8), max_tokens=7, mask=lambda: Breaking(fault))
    assert list(other.result(10).ids) == answer(executor.size, prompt(3, 8), 30)


def test_what_is_no_mask_is_refused(opened: Opening) -> None:
    model, _ = opened()
    with pytest.raises(InputError, match="mask makes a NoneType: expected a TokenMask"):
        model.generate(prompt(0, 8), max_tokens=7, mask=lambda: None)


def test_a_stop_string_is_read_as_a_prompt_is(opened: Opening) -> None:
    """Halves of surrogate pairs are joined, or are U+FFFD: neither has a form in UTF-8."""
    model, executor = opened()
    ids = prompt(0, 8)
    for stop in ("\ud83d\ude00", "\ud800", "x\udfff"):
        assert list(model.generate(ids, max_tokens=3, stop=stop).ids) == answer(executor.size, ids, 3)


def test_a_text_gets_the_begin_token_once_whatever_it_says(opened: Opening) -> None:
    model, executor = opened()
    for text in ("salt", "<bos>salt", "<eos>"):
        ids = [BEGIN, *(FIRST_BYTE + byte for byte in text.encode())]
        assert list(model.generate(text, max_tokens=9).ids) == answer(executor.size, ids, 9)
        assert model.count_tokens(text) == len(ids)
    assert model.generate("", max_tokens=1).usage.prompt_tokens == 1


def test_a_conversation_for_a_base_model_is_refused_by_name(opened: Opening) -> None:
    model, _ = opened()
    with pytest.raises(InputError, match="no chat format"):
        model.generate([{"role": "user", "content": "hello"}], max_tokens=1)
    with pytest.raises(InputError, match="chat_format='gemma9'"):
        model.generate([{"role": "user", "content": "hello"}], max_tokens=1, chat_format="gemma9")


@pytest.mark.parametrize(
    ("call", "option", "says"),
    [
        ("generate", "maxtokens", "GenerateRequest has no option 'maxtokens': did you mean 'max_tokens'"),
        ("generate", "xyz", "GenerateRequest has no option 'xyz': expected some of chat_format, max_tokens"),
        ("embed", "dimension", "EmbedRequest has no option 'dimension': did you mean 'dimensions'"),
    ],
)
def test_an_option_that_there_is_not_is_refused_with_the_nearest_one(
    opened: Opening, call: str, option: str, says: str
) -> None:
    with pytest.raises(InputError, match=says):
        getattr(opened()[0], call)(["text"], **{option: 5})


def test_several_texts_at_once_are_told_how(opened: Opening) -> None:
    with pytest.raises(InputError, match="a list of texts: submit one request for each"):
        opened()[0].generate(["one", "two"])


def test_counting_takes_a_text_and_no_prompts_name(opened: Opening) -> None:
    model, _ = opened()
    with pytest.raises(InputError, match="expected a str"):
        model.count_tokens(b"x")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no named prompts"):
        model.count_tokens("x", "query")


def test_the_models_own_end_tokens_end_an_answer_unless_they_are_ignored(
    opened: Opening, tmp_path: Path
) -> None:
    ids = prompt(4, 6)
    expected = answer(SIZE, ids, 40)
    config = tmp_path / "generation_config.json"
    config.write_text(json.dumps({"eos_token_id": [END, expected[7]]}))
    model, _ = opened(files={"generation_config.json": config})
    result = model.generate(ids, max_tokens=40)
    assert (list(result.ids), result.finish_reason) == (expected[: expected.index(expected[7])], "stop")
    assert result.stop == expected[7]
    assert list(model.generate(ids, max_tokens=40, ignore_eos=True).ids) == expected


def test_the_name_of_a_control_token_stops_at_that_token(opened: Opening) -> None:
    model, executor = opened()
    executor.poison = END
    result = model.generate(prompt(1, 3), max_tokens=9, stop=("<eos>", "never"), ignore_eos=True)
    assert (result.text, result.ids, result.stop) == ("", (), END)
    assert len(model.generate(prompt(1, 3), max_tokens=9, ignore_eos=True).ids) == 9


def test_a_stream_and_a_wait_give_the_same(opened: Opening) -> None:
    model, _ = opened()
    for stop in ((), ("w1",), (" w",), ("w3", "\x07")):
        request = GenerateRequest(prompt(6, 9), max_tokens=60, stop=stop)
        deltas = list(model.submit(request))
        result = model.submit(request).result(10)
        assert "".join(delta.text for delta in deltas) == result.text
        assert tuple(token for delta in deltas for token in delta.ids) == result.ids
        assert deltas[-1].finish_reason == result.finish_reason


def test_answers_end_at_the_limits(opened: Opening) -> None:
    model, executor = opened()
    ids = prompt(5, 20)
    room = executor.size.context - 20
    whole = answer(executor.size, ids, room)
    for asked, count in ((None, room), (room + 1, room), (10**9, room), (1, 1), (0, 0)):
        result = model.generate(ids, max_tokens=asked)
        assert list(result.ids) == whole[:count]
        assert result.finish_reason == "length"
    full = prompt(6, executor.size.context)
    assert model.generate(full).ids == ()


def test_a_request_for_no_tokens_runs_its_prompt_and_no_more(opened: Opening) -> None:
    model, executor = opened()
    ids = prompt(5, 20)
    assert model.generate(ids, max_tokens=0).usage.completion_tokens == 0
    assert sum(rows for _, rows, *_ in executor.log) == 20
    assert {active for *_, active in executor.log} == {frozenset()}
    assert model.generate(ids, max_tokens=2).usage.cached_tokens == 19


def test_a_prompt_over_the_context_is_an_error_unless_it_may_lose_its_begin(opened: Opening) -> None:
    model, executor = opened()
    long = prompt(7, executor.size.context + 1)
    with pytest.raises(InputError, match="97 tokens and the context 96") as raised:
        model.generate(long)
    assert (raised.value.tokens, raised.value.limit) == (97, 96)  # type: ignore[attr-defined]
    for asked, made in ((None, 24), (10, 10), (0, 0), (90, 48)):
        result = model.generate(long, max_tokens=asked, overflow="truncate_left")
        kept = 96 - made
        assert (result.usage.prompt_tokens, len(result.ids)) == (kept, made)
        assert list(result.ids) == answer(executor.size, (BEGIN, *long[len(long) - kept + 1 :]), made)


@pytest.mark.parametrize(("token", "error", "says"), [(NO_TOKEN, InputError, "forbids"), (BROKEN, DeviceError, "not numbers")])  # fmt: skip
def test_what_is_no_token_is_an_error_of_its_request_and_not_kept(
    opened: Opening, token: int, error: type[Exception], says: str
) -> None:
    model, executor = opened()
    ids = prompt(9, 12)
    executor.poison = token
    with pytest.raises(error, match=says):
        model.generate(ids, max_tokens=5)
    executor.poison = None
    result = model.generate(ids, max_tokens=5)
    assert list(result.ids) == answer(executor.size, ids, 5)
    assert result.usage.cached_tokens == 0
