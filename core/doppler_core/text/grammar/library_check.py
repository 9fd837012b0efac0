"""What llguidance finds wrong with a part of a grammar, before anything is compiled for tokens."""

import json
from functools import cache, lru_cache
from typing import Any

import numpy as np

# Of its expressions, states and steps there are only so many.
_OUTGROWN = ("too many expressions", "too many states", "fuel exhausted", "lexer fuel", "Too many items")


def regex_fault(pattern: str) -> str:
    """What is wrong with a regular expression, in a line; "" where nothing is."""
    from llguidance import LLMatcher

    grammar = LLMatcher.grammar_from_regex(pattern)
    return _shortened(_fault(grammar)) or _fault_of_first(grammar)


def outgrown(error: str) -> str:
    """What there is to do where the library gave up on a grammar that grew beyond its limits; "" of any other error."""
    if any(said in error for said in _OUTGROWN):
        return "it repeats what is of many forms too often to be followed: repeat less, or let what is repeated be one class"
    return ""


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


@lru_cache(1024)
def _fault_of_first(grammar: str) -> str:
    """What goes wrong as soon as a text begins, whatever it begins with: how large an expression is shows only then."""
    from llguidance import LLMatcher, LLParserLimits

    begin = LLMatcher(_bytes(), grammar, log_level=0, limits=LLParserLimits(verbose_errors=False))
    mask = np.frombuffer(begin.compute_bitmask(), np.uint8)
    begun = [begin]
    for byte in np.flatnonzero(np.unpackbits(mask, bitorder="little")):
        begun.append(begin.deep_copy())
        begun[-1].consume_token(int(byte))
    return next((said for one in begun if one.is_error() and (said := outgrown(one.get_error()))), "")


@cache
def _bytes() -> Any:
    """A tokenizer of bytes."""
    from llguidance import LLTokenizer

    return LLTokenizer("byte")
