"""Constrained decoding: grammars, and the tokens they allow next."""

from doppler_core.text.grammar.form import Grammar, JsonSchema, Lark, Regex

__all__ = ["Grammar", "JsonSchema", "Lark", "Regex"]
