"""`pin`: writes the digests of the kernels that are here into a manifest, and nothing else."""

from pathlib import Path

import click

from doppler_plugins.cli.output import emit, json_option


@click.command(short_help="Write the kernels' digests into manifests.")
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@json_option
def pin(files: tuple[Path, ...], as_json: bool) -> None:
    """Write our kernels' digests into the manifests FILES; every other byte stays."""
    from doppler_core.manifest.pin import pin as write_digests

    pinned = [write_digests(path) for path in files]
    lines = []
    for one in pinned:
        lines.append(f"{one.path}: {len(one.written)} digests written, {len(one.right)} were right")
        lines += [f"  written: {key}" for key in one.written]
        lines += [f"  kept, this version has no such kernel: {key}" for key in one.without_text]
    value = [
        {
            "path": str(one.path),
            "written": one.written,
            "right": one.right,
            "without_text": one.without_text,
        }
        for one in pinned
    ]
    emit(value, as_json, lines)
