"""`models`: what is in the cache and what came with the package, how big it is, and how to remove it."""

import shutil
from pathlib import Path
from typing import Any

import click

from doppler_core.settings import EngineSettings
from doppler_core.settings import cache_dir as cache_folder
from doppler_plugins.cli.options import cache_option
from doppler_plugins.cli.output import emit, json_option, size, table
from doppler_plugins.cli.spelling import Group
from doppler_plugins.discovery import canonical


@click.group(cls=Group, invoke_without_command=True, short_help="List or remove converted models.")
@cache_option
@json_option
@click.pass_context
def models(ctx: click.Context, cache_dir: str | None, as_json: bool) -> None:
    """List the models that are converted in the cache, and those that came with the package."""
    from doppler_plugins.sources import bundled_models, cached_models

    if ctx.invoked_subcommand is not None:
        return
    settings = EngineSettings.from_environment(cache_dir=cache_dir)
    found = [_describe(path.name, path, "bundled") for path in bundled_models().values()]
    found += [_describe(name, path, "cached") for name, path in cached_models(settings).items()]
    folder = cache_folder(settings)
    rows = [(item["name"], item["where"], size(item["bytes"]), item["path"]) for item in found]
    emit({"cache": str(folder), "models": found}, as_json, [*table(rows), f"cache: {folder}"])


@models.command(short_help="Remove models from the cache.")
@click.argument("names", nargs=-1, required=True)
@cache_option
@json_option
def remove(names: tuple[str, ...], cache_dir: str | None, as_json: bool) -> None:
    """Remove NAMES from the cache. A bundled model stays."""
    from doppler_core.errors import ModelNotFoundError
    from doppler_plugins.sources import bundled_models, cached_models

    cached = cached_models(EngineSettings.from_environment(cache_dir=cache_dir))
    if unknown := [name for name in names if name not in cached]:
        if bundled := [name for name in unknown if canonical(name) in bundled_models()]:
            raise ModelNotFoundError(f"{', '.join(bundled)} comes with the package, and stays")
        known = ", ".join(sorted(cached)) or "nothing"
        raise ModelNotFoundError(f"not in the cache: {', '.join(unknown)}; it holds {known}")
    freed = 0
    for name in dict.fromkeys(names):
        freed += _folder_bytes(cached[name])
        _remove(cached[name])
    emit({"removed": list(dict.fromkeys(names)), "bytes": freed}, as_json, [f"{size(freed)} freed"])


def _describe(name: str, path: Path, where: str) -> dict[str, Any]:
    return {"name": name, "where": where, "bytes": _folder_bytes(path), "path": str(path)}


def _folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _remove(folder: Path) -> None:
    if folder.is_symlink():
        folder.unlink()
        return
    # Without this file the folder is no artifact, so that a removal that is interrupted leaves nothing that opens.
    (folder / "artifact.json").unlink()
    shutil.rmtree(folder)
