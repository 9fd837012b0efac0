"""Distributions made of text: a `.dist-info` folder and modules on the import path, as an installer leaves them."""

import textwrap
from collections.abc import Mapping
from pathlib import Path

MODEL_TYPE = """
class Model:
    name = "{name}"
    architectures = ("{architecture}",)

    def capabilities(self, manifest): ...
    def lower(self, manifest, tensors, room): ...
    def driver(self, opened): ...
"""


def write_distribution(
    folder: Path,
    name: str,
    entry_points: Mapping[str, Mapping[str, str]] | str,
    modules: Mapping[str, str] | None = None,
    version: str = "1.0",
    metadata: str = "",
) -> None:
    """Write a distribution into `folder`: entry points by group, module texts by name, extra METADATA lines."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}")
    if not isinstance(entry_points, str):
        entry_points = "\n".join(
            f"[{group}]\n" + "\n".join(f"{key} = {value}" for key, value in points.items())
            for group, points in entry_points.items()
        )
    (info / "entry_points.txt").write_text(entry_points)
    for module, text in (modules or {}).items():
        (folder / f"{module}.py").write_text(textwrap.dedent(text))


def model_type_source(name: str, architecture: str = "SomeModel") -> str:
    """A module with a class `Model` that has what a model type needs."""
    return MODEL_TYPE.format(name=name, architecture=architecture)
