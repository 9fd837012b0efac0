"""Texts and expressions as Lark writes them, in the dialect of llguidance."""

import json


def lark_string(text: str) -> str:
    """A text that stands for itself."""
    return json.dumps(text, ensure_ascii=False)


def lark_regex(pattern: str) -> str:
    """A regular expression, which stands for what matches it as a whole."""
    from llguidance import regex_to_lark

    return f"/{regex_to_lark(pattern, use_ascii='')}/"
