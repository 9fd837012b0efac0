"""What llguidance finds wrong with a part of a grammar, before anything is compiled for tokens."""

import json
from functools import lru_cache
from typing import Any


def regex_fault(pattern: str) -> str:
    """What is wrong with a regular expression, in a line; "" where nothing is."""
    from llguidance import LLMatcher

    return _shortened(_fault(LLMatcher.grammar_from_regex(pattern)))


def schema_fault(schema: dict[str, Any]) -> str:
    """What is wrong with a JSON schema that the library is to read itself, in a line, but that nothing fits it."""
    return "" if nothing_fits(schema) else _shortened(_of_schema(schema))


def nothing_fits(schema: dict[str, Any]) -> bool:
    """Whether a JSON schema that the library is to read itself contradicts itself."""
    return _of_schema(schema).startswith("Unsatisfiable schema")


def _of_schema(schema: dict[str, Any]) -> str:
    from llguidance import LLMatcher

    return _fault(LLMatcher.grammar_from_json_schema(json.dumps(schema)))


def _shortened(message: str) -> str:
    return " ".join(message.split())[-200:]


@lru_cache(1024)  # schemas come again with every request
def _fault(grammar: str) -> str:
    from llguidance import LLMatcher

    is_fault, messages = LLMatcher.validate_grammar_with_warnings(grammar)
    return str(messages[0]) if is_fault else ""
