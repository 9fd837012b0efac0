"""A canvas as lines of a terminal: its tokens in their shades, a bar of its entropies, how far it is.

Takes a canvas and a window's size; gives lines and their widths. It writes to nothing.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from doppler_plugins.cli.canvas_view import Naming, plain, spots

if TYPE_CHECKING:
    from doppler_core.engine.request import Canvas

_RESET = "\033[0m"
_FULL = 4.0  # nats at which a cell of the bar is full: as unsure as among 55 equal tokens


@dataclass(frozen=True)
class Ink:
    """Escape codes of the three shades and of the bar."""

    settled: str
    accepted: str
    noisy: str
    bar: str


COLOURED = Ink("", "\033[36m", "\033[2m", "\033[33m")
COLOURLESS = Ink("\033[1m", "", "\033[2m", "")

BARS = "▁▂▃▄▅▆▇█"
ASCII_BARS = "_.-:=+*#"


@dataclass(frozen=True)
class Line:
    """A line with its escape codes. cells: how many columns of a terminal it takes."""

    text: str
    cells: int


def canvas_lines(
    canvas: "Canvas", name: Naming, before: str, size: tuple[int, int], ink: Ink, bars: str = BARS
) -> list[Line]:
    """The lines of a canvas that fit a window of `size`, columns and rows, the last two of them bar and status.

    before: text of the answer on whose last line the canvas goes on; as much of its end as there is room for. Of a
    canvas that is too long the beginning is there.
    """
    columns, rows = size[0], max(size[1] - 2, 1)
    said = [(plain(before[-columns * rows :]), ink.settled)]
    first = len(wrapped(said, columns)) - 1
    lines = wrapped(
        [*said, *((spot.text, getattr(ink, spot.shade)) for spot in spots(canvas, name))], columns
    )
    begin = min(first, max(len(lines) - rows, 0))
    return [
        *lines[begin : begin + rows],
        *wrapped([(bar(canvas.entropies, columns, bars), ink.bar)], columns),
        Line(status(canvas, columns), len(status(canvas, columns))),
    ]


def status(canvas: "Canvas", columns: int | None = None) -> str:
    """How far a canvas is; of the parts as many as fit into `columns`."""
    parts = [
        f"canvas {canvas.number + 1}",
        f"step {canvas.step} of {canvas.steps}",
        f"{100 * canvas.accepted_share:.0f} % accepted",
        f"entropy {canvas.entropy:.2f}",
    ]
    while columns is not None and len(parts) > 1 and len(", ".join(parts)) > columns:
        parts.pop()
    return ", ".join(parts)[:columns]


def bar(entropies: Sequence[float], columns: int, bars: str = BARS) -> str:
    """A column for each position, or for the mean of several; a full one for a position that may be anything."""
    count, width = len(entropies), min(len(entropies), columns)
    cut = [entropies[at * count // width : (at + 1) * count // width] for at in range(width)]
    levels = (int(sum(some) / len(some) / _FULL * len(bars)) for some in cut)
    return "".join(bars[min(level, len(bars) - 1)] for level in levels)


def wrapped(runs: Iterable[tuple[str, str]], columns: int) -> list[Line]:
    """Texts, each with its escape code, one behind the other in lines of at most so many columns."""
    lines: list[Line] = []
    text, cells, code = "", 0, ""
    for run, ink in runs:
        for character in run:
            width = _cells(character)
            if character == "\n" or cells + width > columns:
                lines.append(Line(text + _RESET * bool(code), cells))
                text, cells, code = "", 0, ""
            if character == "\n":
                continue
            if ink != code:
                text, code = text + _RESET * bool(code) + ink, ink
            text, cells = text + character, cells + width
    return [*lines, Line(text + _RESET * bool(code), cells)]


def _cells(character: str) -> int:
    """Columns that a terminal gives a character: most take one, East Asian ones two, marks over others none."""
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
