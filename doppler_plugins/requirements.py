"""What a distribution needs and what of it is installed, by its metadata; nothing is imported for it.

Takes an adapter's name and distribution, gives the requirement that is not met and the line that installs it.
The adapter `langchain.embeddings` needs what its distribution lists under the extra `langchain`, if it has one.
"""

import importlib.metadata

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name


def explain_missing(adapter: str, distribution: str) -> str:
    """The unmet requirement and its remedy, or an empty string (also where there is no such extra)."""
    extra = canonicalize_name(adapter.partition(".")[0])
    for requirement in requirements(distribution, extra):
        if lack := unmet(requirement):
            return f'{lack}: pip install "{distribution}[{extra}]"'
    return ""


def unmet(requirement: Requirement) -> str:
    """What is wanted and what is there instead; an empty string where it is met."""
    found = installed(requirement.name)
    if found is not None and requirement.specifier.contains(found, prereleases=True):
        return ""
    has = "which is not installed" if found is None else f"found {found}"
    return f"{requirement.name}{requirement.specifier}, {has}"


def requirements(distribution: str, extra: str = "") -> list[Requirement]:
    """What a distribution needs on this machine; with an extra, what that adds. Nothing where it is not installed."""
    try:
        lines = importlib.metadata.requires(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    found = []
    for line in lines:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue  # installers refuse it too; it says nothing about what is needed
        marker = requirement.marker
        always = marker is None or marker.evaluate({"extra": ""})
        if (marker and marker.evaluate({"extra": extra}) and not always) if extra else always:
            found.append(requirement)
    return found


def installed(name: str) -> str | None:
    """The version of a distribution that is installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
