"""DiffusionGemma 26B-A4B at its full size, on weights that are random, on NumPy: an encode and a denoising step.

    make bench-full-size-diffusion      (15.7 GB of disk, 14 GB of memory, five minutes)

Names, shapes and types are those of a converted checkpoint (diffusion_artifact.py). Experts stay packed in their file, a
memory map; the other matrices are in f32 as far as memory goes. Each step runs in a process of its own; its seconds and
its most anonymous memory are printed. The files are deleted at the end. Ends with 1 where a bar is missed.
"""

import math
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from diffusion_artifact import MANIFEST, artifact_bytes, full_size, tiny, write_artifact
from figures import Bar, verdict
from full_size import Room, Row, bytes_in, check_room, done, free_room, options_parser, report

from doppler_core.engine.request import GenerateRequest
from doppler_core.settings import EngineSettings, Progress
from doppler_core.weights.artifact_format import ARTIFACT_FILE

FOLDER = Path(__file__).parents[1] / "build" / "full-size-diffusion"
PROMPT = 256  # tokens: as many rows as a canvas has
LIMITS = (13_500_000_000, 5_000_000_000)  # bytes for an engine: room for most matrices in f32, and for few
MEMORY_BYTES, SECONDS = 14_000_000_000, 15 * 60
TINY_BYTES = 1_000_000_000


def write(artifact: Path, is_tiny: bool, progress: Progress | None) -> Row:
    """The artifact."""
    info = write_artifact(tiny() if is_tiny else full_size(), artifact, progress)
    types = Counter(tensor.dtype for tensor in info.tensors.values())
    return {"bytes": sum(shard.bytes for shard in info.shards), "tensors": types}


def denoise(artifact: Path, manifest: str | None, limit: int, progress: Progress | None) -> Row:
    """Open the artifact, encode a prompt, take a canvas one step on."""
    from doppler_plugins import open_engine

    begin = time.perf_counter()
    settings = EngineSettings(device="numpy", memory_limit=limit, manifest=manifest)
    with open_engine(artifact, settings, progress) as engine:
        opened = time.perf_counter() - begin
        assert engine.tokenizer is not None
        length = min(PROMPT, engine.capabilities.context_length // 2)
        prompt = np.random.default_rng(7).integers(engine.tokenizer.vocabulary, size=length)
        # A canvas is made whole, however few tokens of it are wanted.
        request = GenerateRequest(tuple(map(int, prompt)), steps=1, max_tokens=1, seed=7, drafts=True)
        handle = engine.submit(request)
        (canvas,) = [delta.canvas for delta in handle if delta.canvas is not None]
        timings = handle.result().timings
        return {
            "device": engine.device,
            "open_seconds": opened,
            "held_bytes": engine.memory_bytes,
            "context_length": engine.capabilities.context_length,
            "sequences": engine.plan.largest.sequences,
            "prompt_tokens": length,
            "encode_seconds": timings.prefill,
            "canvas_tokens": len(canvas.ids),
            "denoise_seconds": timings.decode,
            "entropy": canvas.entropy,
            "first_ids": canvas.ids[:8],
        }


def steps(folder: Path, is_tiny: bool) -> Iterator[tuple[str, Row]]:
    """Each step when it is done, and its figures."""
    artifact = folder / "artifact"
    if not (artifact / ARTIFACT_FILE).is_file():
        yield "write", done(write, artifact, is_tiny)
    for limit in LIMITS:
        # By name: an artifact that was kept has the kernels' digests of the day it was made.
        yield f"numpy in {limit / 1e9:g} GB", done(denoise, artifact, None if is_tiny else MANIFEST, limit)


def denoised(row: Row) -> str:
    """What a line says of a run."""
    return (
        f"open {row['open_seconds']:.1f} s, encode {row['prompt_tokens']} tokens in {row['encode_seconds']:.1f} s, "
        f"a step of {row['canvas_tokens']} in {row['denoise_seconds']:.1f} s; {row['held_bytes'] / 1e9:.2f} GB held "
        f"for {row['sequences']} sequences of {row['context_length']} tokens: entropy {row['entropy']:.2f}, "
        f"{list(row['first_ids'])}"
    )


def bars(row: Row) -> list[Bar]:
    """What a run must hold; one that was left out holds nothing."""
    seconds = sum(row.get(f"{part}_seconds", math.inf) for part in ("open", "encode", "denoise"))
    memory = row.get("peak_anonymous_bytes", math.inf)
    return [
        Bar("seconds to open, encode and denoise", seconds, SECONDS, is_least=False),
        Bar("anonymous GB", memory / 1e9, MEMORY_BYTES / 1e9, is_least=False),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the room, run the steps; whether they held their bars."""
    parser = options_parser(__doc__, FOLDER)
    parser.add_argument(
        "--tiny", action="store_true", help="a model of three megabytes, to try the benchmark"
    )
    options = parser.parse_args(arguments)
    whole = artifact_bytes(tiny() if options.tiny else full_size())
    need = Room(whole - bytes_in(options.folder), TINY_BYTES if options.tiny else MEMORY_BYTES)
    check_room(options.folder, "the artifact needs", need, free_room(options.folder))
    rows = report(options, ("artifact",), steps(options.folder, options.tiny), denoised)
    return max(verdict(name, bars(row)) for name, row in rows.items() if name != "write")


if __name__ == "__main__":
    sys.exit(main())
