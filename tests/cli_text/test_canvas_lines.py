"""A canvas as lines of a terminal: they fit, whatever the tokens spell."""

import re
import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doppler_core.engine.request import Canvas
from doppler_plugins.cli.canvas_lines import (
    ASCII_BARS,
    BARS,
    COLOURED,
    COLOURLESS,
    Ink,
    bar,
    canvas_lines,
    status,
    wrapped,
)
from doppler_plugins.cli.canvas_view import Name, naming, plain, spots, visible
from tests.canvases import ANSWER, END, WORDS, WordTokenizer, forming

NAME = naming(WordTokenizer())  # type: ignore[arg-type]
WIDE = (200, 50)


def seen(text: str) -> str:
    """A line without its escape codes."""
    return re.sub(r"\x1b\[\d*m", "", text)


def cells(text: str) -> int:
    widths = {"W": 2, "F": 2}
    return sum(
        0 if unicodedata.category(one) in ("Mn", "Me") else widths.get(unicodedata.east_asian_width(one), 1)
        for one in text
    )


def test_a_position_shows_what_is_settled_drawn_or_random() -> None:
    canvas = Canvas(
        0, 1, 4, False, "", (0, 1, 2, 3), (True, True, False, False), (4, 4, 5, 6), (True, False, True, False),
        (0.0, 0.1, 0.2, 0.3),
    )  # fmt: skip
    found = spots(canvas, NAME)
    assert [(spot.text, spot.shade) for spot in found] == [
        ("Owls", "settled"),
        (" fly", "settled"),  # its draw was not accepted, but the likeliest token, which answers, stayed
        (" sound", "accepted"),
        (".", "noisy"),
    ]
    assert [spot.entropy for spot in found] == [0.0, 0.1, 0.2, 0.3]


def test_all_of_a_canvas_that_is_done_is_settled() -> None:
    canvas = replace(forming()[0], done=True)
    assert {spot.shade for spot in spots(canvas, NAME)} == {"settled"}
    assert next(spot.text for spot in spots(canvas, NAME)) == NAME(canvas.ids[0]).text


def test_an_end_token_that_fills_the_canvas_is_named_once() -> None:
    assert [spot.text for spot in spots(forming()[-1], NAME)][-3:] == ["<turn|>", "·", "·"]


def test_line_breaks_of_noise_break_nothing() -> None:
    canvas = Canvas(0, 1, 4, False, "", (7, 7), (False, False), (7, 7), (True, False), (0.0, 0.0))
    assert [spot.text for spot in spots(canvas, NAME)] == ["↵\n", "↵"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31m", "␛[31m"),
        ("a\u202eb\u200bc", "abc"),
        ("\x00\r\x7f\x9b", "␀␍��"),
        ("x" * 65, "x" * 64 + "…"),
        ("\ud800", "�"),
        ("e\u0308", "e\u0308"),
    ],
)
def test_characters_that_have_no_sign_get_one(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_token_without_text_or_name_is_its_number() -> None:
    assert NAME(len(WORDS)) == Name("#" + str(len(WORDS)))
    assert naming(None)(5) == Name("#5")
    assert NAME(END) == Name("<turn|>", control=True)
    assert NAME(99) == Name("�")


@given(
    st.text(max_size=80), st.lists(st.text(max_size=30), max_size=20), st.integers(1, 40), st.integers(1, 12)
)
def test_lines_fit_the_window(before: str, tokens: list[str], columns: int, rows: int) -> None:
    size = max(len(tokens), 1)
    canvas = Canvas(
        0, 1, 4, False, "", tuple(range(size)), (False, True) * size, tuple(range(size)), (True,) * size, (1.0,) * size
    )  # fmt: skip
    spelt = dict(enumerate(tokens))
    lines = canvas_lines(
        canvas, lambda token: Name(visible(spelt.get(token, "x"))), before, (columns, rows), COLOURED
    )
    assert 3 <= len(lines) <= max(rows, 3)
    for line in lines:
        assert cells(seen(line.text)) == line.cells
        assert line.cells <= max(columns, 2), "a wide character takes two columns where there is one"
        assert "\n" not in line.text
        assert "\x1b" not in seen(line.text)
        assert line.text.count("\x1b[0m") * 2 == line.text.count("\x1b"), (
            "each line puts out the ink it takes"
        )


@given(st.lists(st.text(), max_size=5), st.integers(2, 20))
def test_wrapping_loses_nothing(texts: list[str], columns: int) -> None:
    texts = [plain(text) for text in texts]
    lines = wrapped([(text, "\x1b[2m" * (number % 2)) for number, text in enumerate(texts)], columns)
    assert "".join(seen(line.text) for line in lines) == "".join(texts).replace("\n", "")


@pytest.mark.parametrize("ink", [COLOURED, COLOURLESS])
def test_shades_differ_with_and_without_colour(ink: Ink) -> None:
    assert len({ink.settled, ink.accepted, ink.noisy}) == 3
    text = "".join(line.text for line in canvas_lines(forming()[2], NAME, "", WIDE, ink))
    assert all(code in text for code in vars(ink).values())


def test_without_colour_there_is_none() -> None:
    assert not any(re.search(r"\[(3|4|9|10)\d", code) for code in vars(COLOURLESS).values())
    assert any(re.search(r"\[(3|4|9|10)\d", code) for code in vars(COLOURED).values())


def test_the_canvas_goes_on_where_the_text_ends() -> None:
    lines = canvas_lines(forming()[-1], NAME, "One.\nTwo: ", WIDE, Ink("", "", "", ""))
    assert [line.text for line in lines[:3]] == [
        "One.",
        "Two: Owls fly almost without a sound.↵",
        " Their feathers are soft.<turn|>··",
    ]


def test_of_a_text_that_is_too_long_the_end_stays_and_of_a_canvas_the_beginning() -> None:
    ink = Ink("", "", "", "")
    (first, *_, status_line) = canvas_lines(forming(ANSWER * 20)[-1], NAME, "a\n" * 50, (40, 6), ink)
    assert first.text == "Owls fly almost without a sound.↵"
    assert status_line.text == "canvas 1, step 6 of 8, 100 % accepted"
    short = canvas_lines(forming()[-1], NAME, "a\n" * 50 + "b ", (40, 6), ink)
    assert [line.text for line in short[:2]] == ["a", "a"]
    assert short[2].text.startswith("b Owls")


def test_the_bar_is_high_where_anything_may_come() -> None:
    assert bar([0.0, 0.6, 2.0, 3.9, 4.0, 100.0], 10) == "▁▂▅███"
    assert bar([0.0, 0.0, 4.0, 8.0], 2) == "▁█"
    assert bar([0.0, 9.0], 2, ASCII_BARS) == "_#"
    assert len(BARS) == len(ASCII_BARS)
    assert len(bar([1.0] * 256, 80)) == 80


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (None, "canvas 1, step 2 of 8, 50 % accepted, entropy 1.72"),
        (49, "canvas 1, step 2 of 8, 50 % accepted"),
        (24, "canvas 1, step 2 of 8"),
        (10, "canvas 1"),
        (4, "canv"),
    ],
)
def test_the_status_says_what_there_is_room_for(columns: int | None, says: str) -> None:
    assert status(forming()[1], columns) == says
