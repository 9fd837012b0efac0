"""Stop strings: nothing of one is shown, nothing beside it is lost, and the split of the text does not matter."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from doppler_core.engine.stopping import StopStrings


def run(pieces: Sequence[str], stops: Sequence[str]) -> tuple[list[str], str | None]:
    """What is shown piece by piece, and what stopped it."""
    stopping, shown = StopStrings(stops), []
    for piece in pieces:
        text, stop = stopping.push(piece)
        shown.append(text)
        if stop is not None:
            return shown, stop
    return [*shown, stopping.finish()], None


def expected(text: str, stops: Sequence[str]) -> tuple[str, str | None]:
    """Letter by letter: the first end of a stop string, the longest of those that end there."""
    for end in range(1, len(text) + 1):
        for stop in sorted(stops, key=len, reverse=True):
            if text[:end].endswith(stop):
                return text[: end - len(stop)], stop
    return text, None


@st.composite
def split_texts(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """A text of few letters, so that stop strings occur, cut anywhere; and the stop strings."""
    stops = draw(st.lists(st.text("ab\n", min_size=1, max_size=5), max_size=4))
    return draw(st.lists(st.text("ab\n", max_size=6), max_size=8)), stops


@given(split_texts())
def test_any_split_gives_the_same_text_and_the_same_stop(case: tuple[list[str], list[str]]) -> None:
    pieces, stops = case
    shown, stop = run(pieces, stops)
    assert ("".join(shown), stop) == expected("".join(pieces), stops)


@given(split_texts())
def test_nothing_is_held_back_but_the_begin_of_a_stop_string(case: tuple[list[str], list[str]]) -> None:
    pieces, stops = case
    stopping, given_, shown = StopStrings(stops), "", ""
    for piece in pieces:
        text, stop = stopping.push(piece)
        given_, shown = given_ + piece, shown + text
        if stop is not None:
            return
        held = given_.removeprefix(shown)
        assert given_ == shown + held
        assert not held or any(other.startswith(held) and other != held for other in stops)


def test_only_what_may_become_a_stop_string_is_held_back() -> None:
    assert run(["one ", "two END", "S three"], ["ENDING"])[0] == ["one ", "two ", "ENDS three", ""]
    assert run(["EN", "D"], ["END"]) == (["", ""], "END")
    assert run(["so far, EN"], ["END"]) == (["so far, ", "EN"], None)


def test_of_stop_strings_that_end_together_the_longest_counts() -> None:
    assert run(["a", "b", "c"], ["c", "bc"]) == (["a", "", ""], "bc")
    assert run(["abc"], ["abc", "b"]) == (["a"], "b")


def test_without_stop_strings_everything_is_shown_at_once() -> None:
    assert run(["a", "", "b"], []) == (["a", "", "b", ""], None)
