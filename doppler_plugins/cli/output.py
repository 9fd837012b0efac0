"""How commands talk: JSON or text on stdout, progress on stderr and only on a terminal."""

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from doppler_core.settings import Progress

_CLEAR = "\r\033[K"  # to the line's beginning, and nothing from there on

_AS_JSON = f"{__name__}.as_json"


def json_flag(what: str) -> Callable[[Any], Any]:
    """The option --json of a command; an error is then told on stdout, too. what: its help."""

    def note(ctx: click.Context, _: click.Parameter, given: bool) -> bool:
        ctx.meta[_AS_JSON] = given or ctx.meta.get(_AS_JSON, False)
        return given

    return click.option("--json", "as_json", is_flag=True, callback=note, help=what)


json_option = json_flag("Print the result as JSON.")


def emit_error(ctx: click.Context, error: Exception) -> None:
    """Print an error as JSON, on a line, for who asked for JSON and reads no stderr."""
    if ctx.meta.get(_AS_JSON):
        told = {"error": {"type": type(error).__name__, "message": str(error)}}
        click.echo(json_text(told, getattr(sys.stdout, "encoding", None)))


def emit(value: Any, as_json: bool, lines: Iterable[str]) -> None:
    """Print `value` as JSON, or `lines`."""
    if as_json:
        click.echo(json_text(value, getattr(sys.stdout, "encoding", None), indent=2))
        return
    for line in lines:
        click.echo(line)


def json_text(value: Any, encoding: str | None = "utf-8", indent: int | None = None) -> str:
    """JSON with letters as they are; escaped where the encoding lacks one, as it does for half of a surrogate pair,
    which stands for a byte of a file's name that is no UTF-8."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    try:
        text.encode(encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent)
    return text


def table(rows: Iterable[Sequence[str]]) -> list[str]:
    """Rows as aligned columns; the last column is as wide as it wants."""
    rows = [list(row) for row in rows]
    if not rows:
        return []
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def size(count: int) -> str:
    """Bytes for people: 302.1 MB."""
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


@contextmanager
def progress_line() -> Iterator[Progress | None]:
    """A progress line on stderr, or None where stderr is not a terminal. A task that did not come to its end leaves
    nothing behind: what is printed afterwards has the line to itself."""
    if not sys.stderr.isatty():
        yield None
        return
    line = _ProgressLine()
    try:
        yield line
    finally:
        line.clear()


class _ProgressLine:
    """Rewrites one line, ten times a second at most, and leaves each task that came to its end standing."""

    _SECONDS = 0.1

    def __init__(self) -> None:
        self._task = ""
        self._shown = 0.0

    def __call__(self, task: str, done: int, total: int) -> None:
        """Show `done` of `total` of a task; total 0 = nobody knows yet."""
        now = time.monotonic()
        finished = 0 < total <= done
        if task == self._task and not finished and now - self._shown < self._SECONDS:
            return
        self._task, self._shown = "" if finished else task, now
        share = f"{100 * done // total:3d} %" if total > 0 else str(done)
        click.echo(f"{_CLEAR}{task} {share}", err=True, nl=finished)

    def clear(self) -> None:
        """Take an unfinished task off the line."""
        if self._task:
            click.echo(_CLEAR, err=True, nl=False)
            self._task = ""
