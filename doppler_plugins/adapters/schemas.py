"""JSON Schemas of classes and tools: takes what describes data, gives its schema, or says why there is none.

It also tells whether one holds itself, which no framework's own form of a tool keeps. It knows no framework.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pydantic import BaseModel

from doppler_core.errors import DopplerError, InputError


def class_schema(described: Any) -> dict[str, Any]:
    """The JSON schema of a pydantic class. InputError for what is none, and for a field that no JSON can hold."""
    if not (isinstance(described, type) and issubclass(described, BaseModel)) or described is BaseModel:
        raise InputError(f"no schema: expected a pydantic class with fields, got {described!r}")
    with readable(f"no schema of {described.__name__}"):
        return described.model_json_schema()


@contextmanager
def readable(what: str) -> Iterator[None]:
    """InputError, which begins with `what`, for all that pydantic or a framework raises of what it can't describe: each
    has errors of many classes for that."""
    try:
        yield
    except DopplerError:
        raise
    except Exception as error:
        said = (str(error).splitlines() or [""])[0]
        raise InputError(f"{what}: {type(error).__name__}: {said}") from error


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
