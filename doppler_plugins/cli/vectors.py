"""Takes vectors a batch at a time: JSON lines on stdout or in a file, a NumPy file, or a list in memory.

A file appears under its name only when it is whole.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

import click

from doppler_core.errors import InputError
from doppler_plugins.cli.output import json_text
from doppler_plugins.cli.texts import Text

if TYPE_CHECKING:
    from doppler_core.engine.request import EmbedResult


class Writer(Protocol):
    """Where vectors go. `collected` holds them where nothing was written."""

    collected: list[Any]

    def write(self, texts: list[Text], result: "EmbedResult") -> None:
        """Take a batch."""


@contextmanager
def vector_writer(out: Path | None, collect: bool) -> Iterator[Writer]:
    """A writer for a .npy or .jsonl file; without `out`, for stdout, or for memory if `collect`."""
    if out is None:
        yield _Collector() if collect else _Lines(click.echo, getattr(sys.stdout, "encoding", None))
    elif out.suffix == ".jsonl":
        with _replaced(out, "w", "utf-8") as file:
            yield _Lines(partial(print, file=file), "utf-8")
    elif out.suffix == ".npy":
        import numpy as np

        arrays = _Arrays()
        with _replaced(out, "wb") as file:
            yield arrays
            np.save(file, np.concatenate(arrays.collected or [np.zeros((0, 0), np.float32)]))
    else:
        raise click.BadParameter("expected a name that ends in .npy or .jsonl", param_hint="--out")


class _Collector:
    def __init__(self) -> None:
        self.collected: list[Any] = []

    def write(self, texts: list[Text], result: "EmbedResult") -> None:
        self.collected += result.vectors.tolist()


class _Arrays(_Collector):
    def write(self, texts: list[Text], result: "EmbedResult") -> None:
        self.collected.append(result.vectors)


class _Lines(_Collector):
    def __init__(self, write_line: Callable[[str], object], encoding: str | None) -> None:
        super().__init__()
        self._write_line = write_line
        self._encoding = encoding

    def write(self, texts: list[Text], result: "EmbedResult") -> None:
        cut = set(result.truncated)
        for number, (text, vector, tokens) in enumerate(
            zip(texts, result.vectors, result.tokens, strict=True)
        ):
            line = {
                "source": text.source,
                "tokens": tokens,
                "truncated": number in cut,
                "vector": vector.tolist(),
            }
            self._write_line(json_text(line, self._encoding))


@contextmanager
def _replaced(out: Path, mode: str, encoding: str | None = None) -> Iterator[IO[Any]]:
    """A file beside `out` that takes its name at the end; InputError where none can be made."""
    beside = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        file = beside.open(mode, encoding=encoding)
    except FileNotFoundError:
        raise InputError(
            f"--out {out}: there is no folder {out.parent}; make it, or name another file"
        ) from None
    except OSError as error:
        raise InputError(f"--out {out}: {out.parent} can't be written ({error.strerror or error})") from None
    try:
        with file:
            yield file
        os.replace(beside, out)
    finally:
        beside.unlink(missing_ok=True)
