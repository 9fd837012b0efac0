"""`convert`: a checkpoint becomes an artifact, in a folder of the user's choice or in the cache."""

import json
from dataclasses import asdict
from pathlib import Path

import click

from doppler_core.errors import ModelNotFoundError
from doppler_core.settings import EngineSettings
from doppler_plugins.cli.options import source_options
from doppler_plugins.cli.output import emit, json_option, progress_line, size


@click.command(short_help="Make an artifact of a checkpoint.")
@click.argument("checkpoint")
@click.option(
    "--out",
    "-o",
    type=click.Path(file_okay=False, path_type=Path),
    help="The new folder; default: the cache.",
)
@click.option("--force", is_flag=True, help="Replace an artifact that is there.")
@json_option
@source_options
def convert(settings: EngineSettings, checkpoint: str, out: Path | None, force: bool, as_json: bool) -> None:
    """Convert CHECKPOINT, a Hugging Face folder, a GGUF file or hf:org/name[@revision].

    A GGUF file keeps its own types unless a precision is named; it needs no conversion to be opened.

    Lists every manifest field that was null and what the checkpoint says for it.
    """
    from doppler_plugins.conversion import convert_checkpoint, resolve_checkpoint
    from doppler_plugins.sources import is_artifact, locate

    path = locate(checkpoint, settings)
    if is_artifact(path):
        raise ModelNotFoundError(f"{path} is an artifact already: expected a publisher's checkpoint")
    found = resolve_checkpoint(path, settings)
    with progress_line() as progress:
        done = convert_checkpoint(found, settings, out, replace=force, progress=progress)
    stored = sum(shard.bytes for shard in done.info.shards)
    lines = [f"{one.path} = {json.dumps(one.value)} ({one.source})" for one in found.resolutions]
    lines += [f"not converted: {name}" for name in done.skipped]
    lines.append(f"{done.path}: {size(stored)}, {len(done.info.tensors)} tensors, manifest {found.origin}")
    value = {
        "artifact": str(done.path),
        "bytes": stored,
        "tensors": len(done.info.tensors),
        "manifest": found.origin,
        "resolutions": [asdict(one) for one in found.resolutions],
        "skipped": done.skipped,
        "was_there": done.kept,
    }
    emit(value, as_json, lines)
