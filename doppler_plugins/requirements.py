"""What an adapter needs beside its own distribution, told before its framework is imported.

Takes an adapter's name and distribution, gives the requirement that is not met and the line that installs it.
The adapter `langchain.embeddings` needs what its distribution lists under the extra `langchain`, if it has one.
"""

import importlib.metadata

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name


def explain_missing(adapter: str, distribution: str) -> str:
    """The unmet requirement and its remedy, or an empty string (also where there is no such extra)."""
    extra = canonicalize_name(adapter.partition(".")[0])
    for requirement in _requirements(distribution, extra):
        found = _installed(requirement.name)
        if found is None or not requirement.specifier.contains(found, prereleases=True):
            has = "which is not installed" if found is None else f"found {found}"
            return f'{requirement.name}{requirement.specifier}, {has}: pip install "{distribution}[{extra}]"'
    return ""


def _requirements(distribution: str, extra: str) -> list[Requirement]:
    try:
        lines = importlib.metadata.requires(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    found = []
    for line in lines:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue  # installers refuse it too; it says nothing about this adapter
        marker = requirement.marker
        if marker and marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""}):
            found.append(requirement)
    return found


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
