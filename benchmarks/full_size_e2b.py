"""Gemma 4 E2B at its full size, on weights that are random: convert it, open it on both executors, make 8 tokens.

    make bench-full-size      (20.4 GB of disk, 4 GB of memory, a quarter of an hour)

Names, shapes and dtypes are the publisher's. Each step runs in a process of its own; its seconds and its most
anonymous memory are printed. The files are deleted at the end. Ends with 1 where a bar is missed.
"""

import argparse
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numpy as np
from e2b_checkpoint import MANIFEST, checkpoint_bytes, is_whole, write_checkpoint
from figures import Bar, machine, verdict, write_figures
from measuring import measured

from doppler_core.engine.memory import available_bytes
from doppler_core.errors import LimitError, NoAdapterError
from doppler_core.settings import EngineSettings
from doppler_core.weights.artifact_format import ARTIFACT_FILE
from doppler_plugins.cli.output import terminal_progress

FOLDER = Path(__file__).parents[1] / "build" / "full-size-e2b"
PROMPT, TOKENS = 32, 8
LITTLE = 2_500_000_000  # bytes for an engine: what does not fit stays packed
LEAST_MEMORY = 4_000_000_000
CONVERT_SECONDS, CONVERT_BYTES = 20 * 60, 3_000_000_000

Row = dict[str, Any]


def write(folder: Path) -> Row:
    """The checkpoint."""
    return {"bytes": write_checkpoint(folder, progress=terminal_progress())}


def convert(checkpoint: Path, artifact: Path) -> Row:
    """The artifact, with the seed's manifest, which the checkpoint's name chooses."""
    from doppler_plugins.conversion import convert_checkpoint, resolve_checkpoint

    found = resolve_checkpoint(checkpoint, EngineSettings())
    info = convert_checkpoint(found, EngineSettings(), artifact, progress=terminal_progress()).info
    types = Counter(tensor.dtype for tensor in info.tensors.values())
    return {"manifest": found.origin, "bytes": sum(shard.bytes for shard in info.shards), "tensors": types}


def generate(artifact: Path, device: str, limit: int | None) -> Row:
    """Open the artifact, run the prompt, make the tokens."""
    from doppler_plugins import open_engine

    prompt = map(int, np.random.default_rng(7).integers(262_144, size=PROMPT))
    begin = time.perf_counter()
    # By name: an artifact that was kept has the kernels' digests of the day it was made.
    settings = EngineSettings(device=device, memory_limit=limit, manifest=MANIFEST)
    with open_engine(artifact, settings, terminal_progress()) as engine:
        opened = time.perf_counter() - begin
        result = engine.generate(prompt, max_tokens=TOKENS, temperature=0, ignore_eos=True)
        return {
            "device": engine.device,
            "open_seconds": opened,
            "held_bytes": engine.memory_bytes,
            "context_length": engine.capabilities.context_length,
            "sequences": engine.plan.largest.sequences,
            "first_seconds": result.timings.first_token,
            "decode_seconds": result.timings.decode,
            "ids": result.ids,
        }


def steps(folder: Path, devices: list[str]) -> Iterator[tuple[str, Row]]:
    """Each step when it is done, and its figures. NumPy runs twice: with all the memory there is, and with little."""
    checkpoint, artifact = folder / "checkpoint", folder / "artifact"
    if not is_whole(checkpoint):
        yield "write", done(write, checkpoint)
    if not (artifact / ARTIFACT_FILE).is_file():
        yield "convert", done(convert, checkpoint, artifact)
    for device in devices:
        yield device, done(generate, artifact, device, None)
    if "numpy" in devices:
        yield f"numpy in {LITTLE / 1e9} GB", done(generate, artifact, "numpy", LITTLE)


def done(step: Callable[..., Row], *arguments: Any) -> Row:
    """A step's figures, or why it was left out."""
    try:
        found = measured(step, *arguments)
    except (LimitError, NoAdapterError, BrokenProcessPool) as error:
        return {"left_out": str(error)}
    return {"seconds": found.seconds, "peak_anonymous_bytes": found.peak_bytes, **found.value}


def line(row: Row) -> str:
    """A step's line of the table."""
    if "left_out" in row:
        return f"left out: {row['left_out']}"
    text = f"{row['seconds']:.0f} s, at most {row['peak_anonymous_bytes'] / 1e9:.2f} GB of anonymous memory"
    if "bytes" in row:
        return f"{text}; {row['bytes'] / 1e9:.2f} GB written"
    return (
        f"{text}; open {row['open_seconds']:.1f} s, first of {len(row['ids'])} tokens after {row['first_seconds']:.1f} s, "
        f"the others {row['decode_seconds'] / (len(row['ids']) - 1):.2f} s each; {row['held_bytes'] / 1e9:.2f} GB held "
        f"for {row['sequences']} sequences of {row['context_length']} tokens: {list(row['ids'])}"
    )


def check_room(folder: Path) -> None:
    """End here where disk or memory is short."""
    whole = checkpoint_bytes()
    need = 2 * whole - sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    free = shutil.disk_usage(folder).free
    if free < need:
        raise SystemExit(
            f"{folder}: checkpoint and artifact need {need / 1e9:.1f} GB of disk, and {free / 1e9:.1f} GB are free: "
            "make room, or name a folder on another disk (--folder)"
        )
    memory = available_bytes()
    if memory is not None and memory < LEAST_MEMORY:
        raise SystemExit(
            f"{memory / 1e9:.1f} GB of memory are free, and {LEAST_MEMORY / 1e9:.0f} GB are the least: end other programs"
        )


def main() -> int:
    """Run the steps, print a line for each, keep the raw figures, clean up."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the files are written")
    parser.add_argument(
        "--keep", action="store_true", help="leave them there; the next run goes on with them"
    )
    parser.add_argument("--devices", nargs="*", default=["numpy", "wgpu"], help="which executors")
    parser.add_argument("--out", type=Path, help="write the raw figures to this JSON file")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    rows: dict[str, Row] = {}
    try:
        check_room(options.folder)
        for name, row in steps(options.folder, options.devices):
            rows[name] = row
            print(f"{name}: {line(row)}", flush=True)
    finally:
        if not options.keep:
            for part in ("checkpoint", "artifact"):
                shutil.rmtree(options.folder / part, ignore_errors=True)
    if options.out:
        write_figures(options.out, {"machine": machine()} | rows)
    return verdict("convert", bars(rows["convert"])) if "convert" in rows else 0


def bars(row: Row) -> list[Bar]:
    """What converting must hold."""
    return [
        Bar("seconds", row["seconds"], CONVERT_SECONDS, is_least=False),
        Bar("anonymous GB", row["peak_anonymous_bytes"] / 1e9, CONVERT_BYTES / 1e9, is_least=False),
    ]


if __name__ == "__main__":
    sys.exit(main())
