"""Where the texts of `embed` come from: arguments, lines of stdin, files, folders. Each has a name for the output."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from doppler_core.errors import InputError
from doppler_plugins.cli.stdin import not_utf8, stdin_lines

SUFFIXES = (".txt", ".md", ".rst")


@dataclass(frozen=True)
class Text:
    """A text and where it came from: a path, `line 3`, `argument 1`."""

    source: str
    text: str


def read_texts(arguments: Sequence[str], files: Sequence[Path]) -> Iterator[Text]:
    """Arguments, then files; without either, the lines of stdin (empty ones too, so that line n gives vector n).

    The argument `-` stands for the lines of stdin, also where it is a terminal.
    """
    if arguments or files:
        return _given(arguments, files)
    if sys.stdin.isatty():
        raise click.UsageError(
            "give texts as arguments, with --file, or one per line on stdin (`-` reads it here)"
        )
    return _lines()


def _given(arguments: Sequence[str], files: Sequence[Path]) -> Iterator[Text]:
    for number, argument in enumerate(arguments, 1):
        if argument == "-":
            yield from _lines()
            continue
        yield Text(f"argument {number}", argument)
    for path in files:
        for file in _text_files(path):
            yield Text(str(file), _read(file))


def _lines() -> Iterator[Text]:
    for number, line in stdin_lines():
        yield Text(f"line {number}", line)


def _text_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.rglob("*") if file.is_file() and file.suffix.lower() in SUFFIXES)
    if not found:
        raise InputError(f"{path}: expected text files ({', '.join(SUFFIXES)}) in this folder, found none")
    return found


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8-sig")
    except OSError as error:
        raise InputError(f"{file}: can't be read ({error.strerror or error})") from None
    except UnicodeDecodeError as error:
        raise not_utf8(str(file), error) from None
