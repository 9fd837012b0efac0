"""A canvas while it forms, in place on a terminal, and the answer's text left standing as it settles.

Wraps what shows an answer's deltas. Where nothing is a terminal each step is a line of its own on stderr. The window is
measured at each step, so that it may change its size at any time.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

import click

from doppler_plugins.cli.canvas_lines import (
    ASCII_BARS,
    BARS,
    COLOURED,
    COLOURLESS,
    Line,
    canvas_lines,
    status,
)
from doppler_plugins.cli.canvas_view import Naming

if TYPE_CHECKING:
    from doppler_core.engine.request import Canvas, Delta

Show = Callable[["Delta"], None]

_SECONDS = 0.04  # that a step stays at least: eyes want to follow a small model too
_USUAL = (80, 24)  # columns and rows where the terminal doesn't say
_NO_WRAP, _WRAP = "\033[?7l", "\033[?7h"
_UP_AND_CLEAR = "\r\033[{}A\033[J"


@contextmanager
def canvases_shown(show: Show, name: Naming) -> Iterator[Show]:
    """A function that shows canvases itself, and leaves the text of other deltas to `show`.

    On a terminal text is left to it by whole lines, the rest at the end: a canvas goes on where its text ends.
    """
    stream = _terminal()
    if stream is None:
        yield lambda delta: show(delta) if delta.canvas is None else _tell(delta.canvas)
        return
    stage = _Stage(_Window(stream), show, name)
    try:
        yield stage
    finally:
        stage.close()


def _tell(canvas: "Canvas") -> None:
    click.echo(status(canvas), err=True)


def _terminal() -> TextIO | None:
    """Where the answer's text goes, if that is a terminal that can be painted; else where talk goes."""
    if os.environ.get("TERM") == "dumb":
        return None
    return next((stream for stream in (sys.stdout, sys.stderr) if stream.isatty()), None)


class _Stage:
    """Deltas in the order they come: canvases in the window, and above it what is whole of the text."""

    def __init__(self, window: "_Window", show: Show, name: Naming) -> None:
        self._window = window
        self._show = show
        self._name = name
        self._thoughts = self._text = ""  # what has come and does not stand above the window yet

    def __call__(self, delta: "Delta") -> None:
        if delta.canvas is not None:
            before = "\n".join(part for part in (self._thoughts, self._text) if part)
            self._window.draw(delta.canvas, self._name, before)
            return
        self._thoughts += delta.reasoning
        self._text += delta.text
        text, self._text = _lines(self._text)
        thoughts, self._thoughts = (self._thoughts, "") if text else _lines(self._thoughts)
        self._leave(replace(delta, text=text, reasoning=thoughts))

    def close(self) -> None:
        """Clear the window, and let go of the rest."""
        from doppler_core.engine.request import Delta

        self._leave(Delta(self._text, reasoning=self._thoughts))
        self._window.clear()

    def _leave(self, delta: "Delta") -> None:
        if delta.text or delta.reasoning:
            self._window.clear()
        self._show(delta)


def _lines(text: str) -> tuple[str, str]:
    """The whole lines of a text, and what begins the next one."""
    end = text.rfind("\n") + 1
    return text[:end], text[end:]


class _Window:
    """The last lines of a terminal, painted anew for each canvas."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._ink = COLOURLESS if os.environ.get("NO_COLOR") else COLOURED
        self._bars = BARS if _encodes(stream, BARS) else ASCII_BARS
        self._drawn: Sequence[Line] = ()
        self._since = 0.0

    def draw(self, canvas: "Canvas", name: Naming, before: str) -> None:
        """Paint a canvas over the one before, once that has stood long enough to be seen."""
        time.sleep(max(0.0, self._since + _SECONDS - time.monotonic()))
        columns, rows = _size(self._stream)
        # The last column and row stay free: what is written there makes some terminals wrap, or scroll.
        size = max(columns - 1, 1), max(rows - 1, 1)
        lines = canvas_lines(canvas, name, before, size, self._ink, self._bars)
        text = "".join(f"{line.text}\n" for line in lines)
        self._write(f"{self._erasure(columns)}{_NO_WRAP}{text}{_WRAP}")
        self._drawn, self._since = lines, time.monotonic()

    def clear(self) -> None:
        """Take the canvas off the terminal."""
        if self._drawn:
            self._write(self._erasure(_size(self._stream)[0]))
            self._drawn = ()

    def _erasure(self, columns: int) -> str:
        """From below the lines that stand back to their first. In a window that became narrower each is several: that
        is what terminals make of them now."""
        rows = sum(max(-(-line.cells // columns), 1) for line in self._drawn)
        return _UP_AND_CLEAR.format(rows) if rows else ""

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _encodes(stream: TextIO, text: str) -> bool:
    try:
        text.encode(getattr(stream, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _size(stream: TextIO) -> tuple[int, int]:
    try:
        columns, rows = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):  # a stream that is no file says so with one or the other
        return _USUAL
    return columns or _USUAL[0], rows or _USUAL[1]
