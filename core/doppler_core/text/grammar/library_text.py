"""A Grammar as llguidance reads it: takes the plain data, gives one JSON text. It knows no tokens."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from doppler_core.errors import InputError
from doppler_core.text.grammar.form import Grammar, JsonSchema, Lark, Regex
from doppler_core.text.grammar.json_notation import JsonNotation
from doppler_core.text.grammar.lark_text import lark_regex
from doppler_core.text.grammar.nesting import check_rules
from doppler_core.text.grammar.pattern import full_pattern
from doppler_core.text.grammar.schema import read_schema
from doppler_core.text.grammar.value_rules import ValueRules
from doppler_core.text.tokenizer import well_formed


def library_text(grammar: Grammar) -> str:
    """The grammar and all its parts. Equal grammars give equal texts. InputError: it is none, or can't be held."""
    named: dict[str, dict[str, Any]] = {}
    for name, body in _named("", grammar):
        if named.setdefault(name, body) != body:
            raise InputError(f"grammar: two different parts have the name {name!r}: rename one")
    return json.dumps({"grammars": [{"name": name, **body} for name, body in named.items()]})


def _named(name: str, grammar: object) -> Iterator[tuple[str, dict[str, Any]]]:
    """The grammar by its name, and its parts by theirs; the first is where the text starts."""
    match grammar:
        case JsonSchema(schema):
            rules = ValueRules(JsonNotation())
            root = rules.of(read_schema(schema))
            yield from _named(name, Lark(f"start: {root}\n{rules.text()}"))
        case Regex(pattern):
            yield name, {"lark_grammar": f"start: {_regex(pattern)}"}
        case Lark(text, parts):
            checked = _lark(text, parts)
            yield name, {"lark_grammar": checked}
            for part, body in parts.items():
                yield from _named(well_formed(part), body)
        case _:
            raise InputError(f"grammar: expected JsonSchema, Regex or Lark, got {type(grammar).__name__}")


def _regex(pattern: object) -> str:
    if not isinstance(pattern, str) or not pattern:
        raise InputError(f"grammar: expected a regular expression that is not empty, got {pattern!r}")
    return lark_regex(full_pattern(well_formed(pattern)))


def _lark(text: object, parts: object) -> str:
    if not isinstance(text, str):
        raise InputError(f"grammar: expected a grammar in Lark's notation, a str, got {type(text).__name__}")
    if not isinstance(parts, Mapping) or not all(isinstance(name, str) for name in parts):
        raise InputError(f"grammar: parts is {parts!r}: expected a grammar for each name")
    text = well_formed(text)
    check_rules(text)
    return text
