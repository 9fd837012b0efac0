"""Gemma 4's replies are read as they come, cut anywhere; a call is whole and readable, or reported as invalid."""

import re
import time
from collections.abc import Iterable
from typing import Any

import pytest
from chat_reply_cases import CASES, Case, called, pieces_of

from doppler_core.text.chat import (
    Control,
    InvalidToolCall,
    Piece,
    Reasoning,
    ReplyPart,
    Text,
    ToolCall,
    format_named,
)

GEMMA4 = format_named("gemma4")


def parts_of(
    pieces: Iterable[Piece], cut: bool = False, prompt: tuple[Piece, ...] = (), calls: bool = True
) -> list[ReplyPart]:
    assert GEMMA4.parser is not None
    parser = GEMMA4.parser(prompt, calls)
    parts: list[ReplyPart] = []
    for piece in pieces:
        parts += parser.control(piece.token) if isinstance(piece, Control) else parser.text(piece)
    return [*parts, *parser.finish(cut)]


def joined(parts: Iterable[ReplyPart]) -> tuple[str, str, list[Any]]:
    """Text, reasoning, and calls of a reply, invalid ones as they are."""
    parts = list(parts)
    text = "".join(part.text for part in parts if isinstance(part, Text))
    reasoning = "".join(part.text for part in parts if isinstance(part, Reasoning))
    return text, reasoning, [part for part in parts if isinstance(part, ToolCall | InvalidToolCall)]


def check(case: Case, pieces: Iterable[Piece]) -> None:
    text, reasoning, calls = joined(parts_of(pieces, case.cut, case.prompt))
    assert (text, reasoning) == (case.text, case.reasoning)
    assert len(calls) == len(case.calls)
    for call, expected in zip(calls, case.calls, strict=True):
        if isinstance(expected, str):
            assert isinstance(call, InvalidToolCall)
            name, _, error = expected.partition(": ")
            assert str(call.name) == name
            assert error in call.error
        else:
            assert isinstance(call, ToolCall)
            assert (call.name, call.arguments) == expected
            # 1 == 1.0 == True: the kinds count, too.
            assert repr(call.arguments) == repr(expected[1])


@pytest.mark.parametrize("case", [case for case in CASES if case.calls], ids=lambda case: case.name)
def test_without_anything_to_call_no_character_is_lost_to_a_call(case: Case) -> None:
    text, reasoning, calls = joined(parts_of(pieces_of(case.reply), case.cut, case.prompt, calls=False))
    assert calls == []
    written = "".join(piece for piece in pieces_of(case.reply) if isinstance(piece, str))
    told = re.sub(r"\s", "", text + reasoning)
    assert sorted(told) == sorted(re.sub(r"thought\n|\s", "", written))


def test_there_are_at_least_sixty_cases_each_named_once() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 60


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_reply_is_read_as_a_whole(case: Case) -> None:
    check(case, pieces_of(case.reply))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_reply_is_read_the_same_character_by_character(case: Case) -> None:
    check(case, (one for piece in pieces_of(case.reply) for one in characters(piece)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_reply_is_read_the_same_cut_in_two_anywhere(case: Case) -> None:
    pieces = pieces_of(case.reply)
    for index, piece in enumerate(pieces):
        if isinstance(piece, str):
            # One long number is enough of them: what is cut there is one text, however long.
            for at in range(1, min(len(piece), 100)):
                check(case, [*pieces[:index], piece[:at], piece[at:], *pieces[index + 1 :]])


def characters(piece: Piece) -> Iterable[Piece]:
    return piece if isinstance(piece, str) else [piece]


@pytest.mark.parametrize("case", [case for case in CASES if case.calls], ids=lambda case: case.name)
def test_a_call_that_is_cut_off_anywhere_is_invalid_and_none_comes_before_its_end(case: Case) -> None:
    pieces = [one for piece in pieces_of(case.reply) for one in characters(piece)]
    begin, end = Control("<|tool_call>"), Control("<tool_call|>")
    closing = (end, Control("<|channel>"), Control("<turn|>"))
    for size in range(0, len(pieces), 1 if len(pieces) < 200 else 37):
        begun = pieces[:size]
        _, _, calls = joined(parts_of(begun, cut=True))
        whole = [call for call in calls if isinstance(call, ToolCall)]
        assert len(whole) <= begun.count(end)
        if [piece for piece in begun if piece in (begin, *closing)][-1:] == [begin]:
            assert isinstance(calls[-1], InvalidToolCall)
            assert "cut off" in calls[-1].error


def test_text_comes_as_soon_as_it_is_there() -> None:
    assert GEMMA4.parser is not None
    parser = GEMMA4.parser()
    assert list(parser.text("Hel")) == [Text("Hel")]
    assert list(parser.text("lo ")) == [Text("lo ")]
    assert list(parser.control("<|channel>")) == []
    assert list(parser.text("thought\nSo ")) == [Reasoning("So")]
    assert list(parser.text("it")) == [Reasoning(" it")]
    assert list(parser.control("<channel|>")) == []
    assert list(parser.control("<|tool_call>")) == []
    assert list(parser.text("call:f{}")) == []
    (call,) = parser.control("<tool_call|>")
    assert isinstance(call, ToolCall)
    assert list(parser.finish()) == []


def test_ids_are_unlike_each_other_and_unlike_those_of_another_reply() -> None:
    replies = [joined(parts_of(pieces_of(called("a:1") * 3 + called("a")))) for _ in range(20)]
    ids = [call.id for _, _, calls in replies for call in calls]
    assert len(set(ids)) == len(ids) == 80
    assert all(re.fullmatch(r"call_[0-9a-f]{24}", number) for number in ids)


def test_an_invalid_call_shows_what_was_written() -> None:
    (part,) = parts_of(pieces_of("⟦<|tool_call>⟧call:pay{to:`Bob`,amount:10"), cut=True)
    assert isinstance(part, InvalidToolCall)
    assert part.text == 'call:pay{to:<|"|>Bob<|"|>,amount:10'


def test_reading_takes_time_in_proportion() -> None:
    """Long texts, many quotes and deep brackets: none of them may be read again and again."""
    hostile = ('"' * 50_000, '"\\' * 50_000, "[" * 100_000, "a " * 50_000, "-" * 100_000, "a:1," * 25_000)
    begin = time.monotonic()
    for arguments in hostile:
        _, _, calls = joined(parts_of(pieces_of(called(arguments))))
        assert [type(call) for call in calls] == [InvalidToolCall]
    # Each has about 100,000 characters: 0.1 s here in all, hours if read quadratically.
    assert time.monotonic() - begin < 5
