"""`verify`: reads an artifact whole and compares every hash."""

from pathlib import Path

import click

from doppler_core.settings import EngineSettings
from doppler_plugins.cli.options import cache_option
from doppler_plugins.cli.output import emit, json_option, progress_line


@click.command(short_help="Check an artifact against its hashes.")
@click.argument("artifact")
@cache_option
@json_option
def verify(artifact: str, cache_dir: str | None, as_json: bool) -> None:
    """Check every byte of ARTIFACT (a folder, or a cached or bundled name) against its hashes."""
    from doppler_core.errors import ModelNotFoundError
    from doppler_core.weights.artifact import verify as verify_artifact
    from doppler_plugins.sources import is_artifact, locate

    folder: Path = locate(artifact, EngineSettings.from_environment(cache_dir=cache_dir, offline=True))
    if not is_artifact(folder):
        raise ModelNotFoundError(
            f"{folder} is a checkpoint: only artifacts carry hashes (`doppler-plugins convert`)"
        )
    with progress_line() as progress:
        verify_artifact(folder, progress)
    emit({"artifact": str(folder), "ok": True}, as_json, [f"{folder}: every hash is right"])
