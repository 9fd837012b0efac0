"""`pull`: fetches a model from the Hugging Face Hub, so that it opens without the network from then on."""

from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from doppler_core.errors import ModelNotFoundError
from doppler_core.settings import EngineSettings
from doppler_plugins.cli.options import offline_option, revision_option
from doppler_plugins.cli.output import emit, json_option, size
from doppler_plugins.discovery import canonical


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
    from doppler_plugins.sources import bundled_models

    if bundled := bundled_models().get(canonical(name)):
        found = _found(bundled.name, bundled)
        emit(
            found,
            as_json,
            [f"{bundled.name} comes with this package and needs no pull: open it by this name"],
        )
        return
    if "/" not in name:
        near = get_close_matches(canonical(name), bundled_models(), n=1)
        hint = f"; did you mean {bundled_models()[near[0]].name}, which needs no pull?" if near else ""
        raise ModelNotFoundError(f"{name!r}: expected organisation/name, as the Hub has it{hint}")
    settings = EngineSettings.from_environment(revision=revision, offline=offline)
    ref = name if name.startswith(hub.PREFIX) else hub.PREFIX + name
    path = hub.download(ref, settings.revision, settings.offline, file=pattern, token=token)
    found = _found(hub.reference(ref, settings.revision, path), path)
    emit(found, as_json, [f"{path}: {size(found['bytes'])}", f"open it as {found['model']}"])


def _found(model: str, path: Path) -> dict[str, Any]:
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    return {"model": model, "path": str(path), "bytes": sum(file.stat().st_size for file in files)}
