"""The fields of the manifest's models, read from the models themselves: sections, leaves, their JSON paths.

In a path `[]` stands for any index of a list and `*` for any key of a free object. Step lists are leaves.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, get_args

from doppler_core.manifest.base import Section
from doppler_core.manifest.execution import Step


@cache
def known_fields(root: type[Section]) -> Mapping[str, tuple[str, ...]]:
    """The JSON names of the fields of every section, by the section's path ("" = the manifest itself)."""
    found: dict[str, tuple[str, ...]] = {}
    _collect(root, "", found)
    return found


@cache
def leaf_paths(root: type[Section]) -> tuple[str, ...]:
    """The JSON path of every field that holds a value rather than a section."""
    sections = known_fields(root)
    steps = {path for path in sections if path.startswith("execution.") and path.count("[]")}
    return tuple(
        path
        for section, names in sections.items()
        if section not in steps
        for name in names
        if (path := f"{section}.{name}" if section else name) not in sections
        and f"{path}.*" not in sections
        and f"{path}[]" not in sections.keys() - steps
    )


def _collect(section: type[Section], path: str, found: dict[str, tuple[str, ...]]) -> None:
    fields = {_alias(section, name): field for name, field in section.model_fields.items()}
    found[path] = tuple(fields)
    for name, field in fields.items():
        for inner, suffix in _sections(field.annotation, ""):
            _collect(inner, f"{path}.{name}{suffix}" if path else f"{name}{suffix}", found)


def _alias(section: type[Section], name: str) -> str:
    return section.model_fields[name].alias or name


def _sections(annotation: Any, suffix: str) -> Iterator[tuple[type[Section], str]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        if annotation is not Step:
            yield annotation, suffix
        return
    origin = str(getattr(annotation, "__origin__", ""))
    if "tuple" in origin:
        suffix += "[]"
    elif "Mapping" in origin:
        suffix += ".*"
    for part in get_args(annotation):
        yield from _sections(part, suffix)
