"""Texts and expressions as Lark writes them, in the dialect of llguidance."""

import json


def lark_string(text: str) -> str:
    """A text that stands for itself. llguidance reads no `\\u` of control characters."""
    return f'"{"".join(map(_written, text))}"'


def _written(character: str) -> str:
    if character < " " or character == "\x7f":
        return f"\\x{ord(character):02x}"
    return json.dumps(character, ensure_ascii=False)[1:-1]


def lark_regex(pattern: str) -> str:
    """A regular expression, which stands for what matches it as a whole."""
    from llguidance import regex_to_lark

    return f"/{regex_to_lark(pattern, use_ascii='')}/"
