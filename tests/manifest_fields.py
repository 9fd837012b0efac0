"""Fields of a manifest's JSON by their dotted paths, for tests that change one."""

from collections.abc import Callable
from typing import Any

Change = Callable[[dict[str, Any]], None]


def set_field(data: dict[str, Any], path: str, value: object) -> None:
    """Set a field, in place; KeyError where its section is missing, so that a misspelt path changes nothing."""
    *sections, name = path.split(".")
    for section in sections:
        data = data[section]
    data[name] = value


def field_set(path: str, value: object) -> Change:
    """The change that sets a field."""
    return lambda data: set_field(data, path, value)
