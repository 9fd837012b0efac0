"""JSON Schemas of classes: takes one, tells whether it holds itself, which no framework's own form of a tool keeps."""

from collections.abc import Mapping
from typing import Any


def holds_itself(schema: Mapping[str, Any]) -> bool:
    """Whether a definition of it leads back to itself."""
    leads = {name: _references(one) for name, one in schema.get("$defs", {}).items()}
    for start, leading_to in leads.items():
        reached, new = set[str](), set(leading_to)
        while new:
            reached |= new
            new = set().union(*(leads.get(name, set()) for name in new)) - reached
        if start in reached:
            return True
    return False


def _references(schema: Any) -> set[str]:
    if isinstance(schema, Mapping):
        own = {str(schema["$ref"]).rpartition("/")[2]} if "$ref" in schema else set[str]()
        return own.union(*map(_references, schema.values()))
    return set[str]().union(*map(_references, schema)) if isinstance(schema, list) else set()
