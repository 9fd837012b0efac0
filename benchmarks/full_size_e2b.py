"""Gemma 4 E2B at its full size, on weights that are random: convert it, open it on both executors, make 8 tokens.

    make bench-full-size      (20.4 GB of disk, 4 GB of memory, a quarter of an hour)

Names, shapes and dtypes are the publisher's. Each step runs in a process of its own; its seconds and its most
anonymous memory are printed. The files are deleted at the end. Ends with 1 where a bar is missed.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from e2b_checkpoint import MANIFEST, checkpoint_bytes, is_whole, write_checkpoint
from figures import Bar, verdict
from full_size import Room, Row, bytes_in, check_room, done, free_room, options_parser, report

from doppler_core.settings import EngineSettings, Progress
from doppler_core.weights.artifact_format import ARTIFACT_FILE

FOLDER = Path(__file__).parents[1] / "build" / "full-size-e2b"
PROMPT, TOKENS = 32, 8
LITTLE = 2_500_000_000  # bytes for an engine: what does not fit stays packed
LEAST_MEMORY = 4_000_000_000
CONVERT_SECONDS, CONVERT_BYTES = 20 * 60, 3_000_000_000


def write(folder: Path, progress: Progress | None) -> Row:
    """The checkpoint."""
    return {"bytes": write_checkpoint(folder, progress=progress)}


def convert(checkpoint: Path, artifact: Path, progress: Progress | None) -> Row:
    """The artifact, with the seed's manifest, which the checkpoint's name chooses."""
    from doppler_plugins.conversion import convert_checkpoint, resolve_checkpoint

    found = resolve_checkpoint(checkpoint, EngineSettings())
    info = convert_checkpoint(found, EngineSettings(), artifact, progress=progress).info
    types = Counter(tensor.dtype for tensor in info.tensors.values())
    return {"manifest": found.origin, "bytes": sum(shard.bytes for shard in info.shards), "tensors": types}


def generate(artifact: Path, device: str, limit: int | None, progress: Progress | None) -> Row:
    """Open the artifact, run the prompt, make the tokens."""
    from doppler_plugins import open_engine

    prompt = map(int, np.random.default_rng(7).integers(262_144, size=PROMPT))
    begin = time.perf_counter()
    # By name: an artifact that was kept has the kernels' digests of the day it was made.
    settings = EngineSettings(device=device, memory_limit=limit, manifest=MANIFEST)
    with open_engine(artifact, settings, progress) as engine:
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


def generated(row: Row) -> str:
    """What a line says of a run."""
    return (
        f"open {row['open_seconds']:.1f} s, first of {len(row['ids'])} tokens after {row['first_seconds']:.1f} s, "
        f"the others {row['decode_seconds'] / (len(row['ids']) - 1):.2f} s each; {row['held_bytes'] / 1e9:.2f} GB held "
        f"for {row['sequences']} sequences of {row['context_length']} tokens: {list(row['ids'])}"
    )


def main() -> int:
    """Check the room, run the steps; whether converting held its bars."""
    parser = options_parser(__doc__, FOLDER)
    parser.add_argument("--devices", nargs="*", default=["numpy", "wgpu"], help="which executors")
    options = parser.parse_args()
    need = Room(2 * checkpoint_bytes() - bytes_in(options.folder), LEAST_MEMORY)
    check_room(options.folder, "checkpoint and artifact need", need, free_room(options.folder))
    options.folder.mkdir(parents=True, exist_ok=True)
    rows = report(options, ("checkpoint", "artifact"), steps(options.folder, options.devices), generated)
    return verdict("convert", bars(rows["convert"])) if "convert" in rows else 0


def bars(row: Row) -> list[Bar]:
    """What converting must hold."""
    return [
        Bar("seconds", row["seconds"], CONVERT_SECONDS, is_least=False),
        Bar("anonymous GB", row["peak_anonymous_bytes"] / 1e9, CONVERT_BYTES / 1e9, is_least=False),
    ]


if __name__ == "__main__":
    sys.exit(main())
