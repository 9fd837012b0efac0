"""`pull`: fetches a model from the Hugging Face Hub, so that it opens without the network from then on."""

from typing import Any

import click

from doppler_core.settings import EngineSettings
from doppler_plugins.cli.options import offline_option, revision_option
from doppler_plugins.cli.output import emit, json_option, size


@click.command(short_help="Fetch a model from the Hugging Face Hub.")
@click.argument("name")
@click.option("--file", "pattern", help="Of a repository of GGUF files: which one, such as '*Q4_K_M*'.")
@click.option("--token", help="In place of HF_TOKEN, or of the login of `hf auth login`.")
@revision_option
@offline_option
@json_option
def pull(
    name: str,
    pattern: str | None,
    token: str | None,
    revision: str | None,
    offline: bool | None,
    as_json: bool,
) -> None:
    """Fetch NAME, organisation/name or hf:organisation/name[/file.gguf][@revision], into the Hub's own cache.

    A run that was stopped goes on where it was; what is there already is not fetched again.
    """
    from doppler_plugins import hub

    settings = EngineSettings.from_environment(revision=revision, offline=offline)
    ref = name if name.startswith(hub.PREFIX) else hub.PREFIX + name
    path = hub.download(ref, settings.revision, settings.offline, file=pattern, token=token)
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    found: dict[str, Any] = {
        "model": hub.reference(ref, settings.revision, path),
        "path": str(path),
        "bytes": sum(file.stat().st_size for file in files),
    }
    emit(found, as_json, [f"{path}: {size(found['bytes'])}", f"open it as {found['model']}"])
