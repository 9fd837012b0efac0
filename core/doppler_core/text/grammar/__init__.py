"""Constrained decoding: what a model may write, as grammars, and which tokens one allows next.

The parts that need NumPy or llguidance are imported from their modules: `table`, `masks`.
"""

from doppler_core.text.grammar.form import Grammar, JsonSchema, Lark, Regex

__all__ = ["Grammar", "JsonSchema", "Lark", "Regex"]
