"""Turns what pydantic found into this project's words: JSON path, expected, found, the nearest known name."""

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pydantic_core import ErrorDetails

from doppler_core.manifest.base import Section
from doppler_core.manifest.execution import STEP_FIELDS
from doppler_core.manifest.json_text import kind_of
from doppler_core.manifest.leaves import known_fields

_SHOWN = 5
# How pydantic marks which kind of entry of a step list it read.
_TAGS = ("step", "group")
_EXPECTED: Mapping[str, str] = {
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a whole number of at most 2^53",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "a string",
    "string_unicode": "a string without unpaired surrogates",
    "string_too_short": "a string that is not empty",
    "string_too_long": "a shorter string",
    "dict_type": "an object",
    "mapping_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "none_required": "null",
}
_PATTERNS: Mapping[str, str] = {
    "sha256": '"sha256:" and 64 hexadecimal digits in lower case (`doppler-plugins pin FILE` writes the digests)',
    "wgsl": "the name of a .wgsl file, without a folder",
    "a-z_": "the name of a WGSL entry point",
}
_BOUNDS: Mapping[str, tuple[str, str]] = {
    "greater_than": ("a number over", "gt"),
    "greater_than_equal": ("a number of at least", "ge"),
    "less_than": ("a number under", "lt"),
    "less_than_equal": ("a number of at most", "le"),
}


def describe(errors: Iterable[ErrorDetails], root: type[Section]) -> str:
    """One sentence per problem, at most five, each with its JSON path."""
    lines = list(dict.fromkeys(_sentence(error, root) for error in errors))
    more = f"\n  and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return "\n  ".join(lines[:_SHOWN]) + more


def json_path(loc: Sequence[int | str]) -> str:
    """`("execution", "decode", 3, "step", "kernel")` as JavaScript would write it: execution.decode[3][1]."""
    path = ""
    for before, part in zip((None, *loc), loc, strict=False):
        if isinstance(part, int):
            path += f"[{part}]"
        elif isinstance(before, int) and part in _TAGS:
            continue
        elif (isinstance(before, int) or before == "step") and part in STEP_FIELDS:
            path += f"[{STEP_FIELDS.index(part)}]"
        elif part.isidentifier() and part.isascii():
            path += f".{part}" if path else part
        else:
            path += f"[{json.dumps(part)}]"
    return path


def found(value: object, longest: int = 60) -> str:
    """The value as JSON if it has at most `longest` characters, else what kind of value it is."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        return f"a Python {type(value).__name__}"
    return text if len(text) <= longest else kind_of(value)


def nearest(name: str, known: Sequence[str], everywhere: Iterable[str] = ()) -> str:
    """Advice on an unknown name: the nearest name here, else where it belongs, else the names there are."""
    folded = {candidate.lower().replace("_", ""): candidate for candidate in known}
    if match := difflib.get_close_matches(name.lower().replace("_", ""), folded, n=1):
        return f'did you mean "{folded[match[0]]}"?'
    if homes := [path for path in everywhere if path.rpartition(".")[2] == name]:
        return f"it belongs at {homes[0]}"
    ordered = sorted(known, key=lambda candidate: -difflib.SequenceMatcher(None, name, candidate).ratio())
    return "the nearest names here are " + ", ".join(f'"{candidate}"' for candidate in ordered[:4])


def _sentence(error: ErrorDetails, root: type[Section]) -> str:
    path = json_path(error["loc"])
    kind, value = error["type"], error["input"]
    if kind == "extra_forbidden":
        *parent, name = error["loc"]
        fields = known_fields(root)
        advice = nearest(str(name), fields[_pattern(parent)], _paths(fields))
        return f"{path}: unknown field; {advice}"
    if kind == "missing":
        return f"{path}: missing; expected {_wanted(error)}"
    context = error.get("ctx", {})
    return f"{path}{context.get('where', '')}: expected {_wanted(error)}, found {found(value)}"


def _wanted(error: ErrorDetails) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind == "manifest":
        return str(context["what"])
    if kind == "missing":
        return "a value (null where the checkpoint says it)"
    if kind == "literal_error":
        return str(context["expected"]).replace("'", '"')
    if kind == "string_pattern_mismatch":
        return next(words for mark, words in _PATTERNS.items() if mark in context["pattern"])
    if kind in _BOUNDS:
        words, key = _BOUNDS[kind]
        return f"{words} {context[key]}"
    return _EXPECTED.get(kind, "another kind of value")


def _pattern(loc: Sequence[int | str]) -> str:
    """The section at `loc` as known_fields names it: [] for an index, * for a kernel's key."""
    path = ""
    for before, part in zip((None, *loc), loc, strict=False):
        if isinstance(part, int):
            path += "[]"
        elif not (isinstance(before, int) and part in _TAGS):
            name = "*" if before == "kernels" else part
            path += f".{name}" if path else name
    return path


def _paths(fields: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for section, names in fields.items():
        for name in names:
            yield f"{section}.{name}" if section else name
