"""What the benchmarks of models at their full size share: options, the room they need, steps, the report, cleaning up.

A step runs in a process of its own; its seconds and its most anonymous memory are in its figures. It knows no model.
"""

import argparse
import shutil
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from figures import machine, write_figures
from measuring import measured

from doppler_core.engine.memory import available_bytes
from doppler_core.errors import LimitError, NoAdapterError
from doppler_plugins.cli.output import progress_line

Row = dict[str, Any]
Line = Callable[[Row], str]


@dataclass(frozen=True)
class Room:
    """Bytes of disk and of memory: what is needed, or what is free. memory: None = the system does not say."""

    disk: int
    memory: int | None


def free_room(folder: Path) -> Room:
    """What is free where the folder is, or will be."""
    there = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    return Room(shutil.disk_usage(there).free, available_bytes())


def bytes_in(folder: Path) -> int:
    """Of all files below a folder; 0 where there is none."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def check_room(folder: Path, what: str, need: Room, free: Room) -> None:
    """SystemExit where disk or memory is short. what: the files that are yet to be written."""
    if free.disk < need.disk:
        raise SystemExit(
            f"{folder}: {what} {need.disk / 1e9:.1f} GB of disk, and {free.disk / 1e9:.1f} GB are free: "
            "make room, or name a folder on another disk (--folder)"
        )
    if need.memory is not None and free.memory is not None and free.memory < need.memory:
        raise SystemExit(
            f"{free.memory / 1e9:.1f} GB of memory are free, and {need.memory / 1e9:.1f} GB are the least: end other programs"
        )


def done(step: Callable[..., Row], *arguments: Any) -> Row:
    """A step's figures, or why it was left out. step: also takes what to tell its progress, or None, at the end."""
    try:
        found = measured(_told, step, *arguments)
    except (LimitError, NoAdapterError, BrokenProcessPool) as error:
        return {"left_out": str(error)}
    return {"seconds": found.seconds, "peak_anonymous_bytes": found.peak_bytes, **found.value}


def _told(step: Callable[..., Row], *arguments: Any) -> Row:
    with progress_line() as progress:
        return step(*arguments, progress)


def line(row: Row, rest: Line) -> str:
    """A step's line of the table. rest: what stands behind time and memory, where nothing was written."""
    if "left_out" in row:
        return f"left out: {row['left_out']}"
    more = f"{row['bytes'] / 1e9:.2f} GB written" if "bytes" in row else rest(row)
    return f"{row['seconds']:.0f} s, at most {row['peak_anonymous_bytes'] / 1e9:.2f} GB of anonymous memory; {more}"


def options_parser(description: str | None, folder: Path) -> argparse.ArgumentParser:
    """The options that all have. folder: the default."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=folder, help="where the files are written")
    parser.add_argument(
        "--keep", action="store_true", help="leave them there; the next run goes on with them"
    )
    parser.add_argument("--out", type=Path, help="write the raw figures to this JSON file")
    return parser


def report(
    options: argparse.Namespace, parts: Sequence[str], steps: Iterable[tuple[str, Row]], rest: Line
) -> dict[str, Row]:
    """Run the steps, print a line for each, keep the raw figures, clean up. parts: folders that the steps write."""
    rows: dict[str, Row] = {}
    try:
        for name, row in steps:
            rows[name] = row
            print(f"{name}: {line(row, rest)}", flush=True)
    finally:
        if not options.keep:
            for part in parts:
                shutil.rmtree(options.folder / part, ignore_errors=True)
    if options.out:
        write_figures(options.out, {"machine": machine()} | rows)
    return rows
