"""JSON, in its shortest form: no whitespace, and nothing escaped that need not be. Keys are in the order of the schema."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from doppler_core.text.grammar.lark_text import lark_regex, lark_string
from doppler_core.text.grammar.notation import Rules
from doppler_core.text.grammar.pattern import text_schema
from doppler_core.text.grammar.shape import Text

# A character of a text. Half of a surrogate pair can't be written, as `\u` can't.
_CHARACTER = r'([^"\\\x00-\x1f\x7f]|\\["\\bfnrt])'


class JsonNotation:
    """A Notation."""

    shared = f"""
TEXT: /"{_CHARACTER}*"/
anytext: TEXT
anykey: TEXT
"""

    def in_order(self, keys: Mapping[str, Any]) -> Sequence[tuple[str, Any]]:
        return list(keys.items())

    def key(self, key: str) -> str:
        return lark_string(f"{_written(key)}:")

    def other_key(self, taken: Sequence[str], rules: Rules) -> str:
        if not taken:
            return "anykey"
        written = "|".join(re.escape(_written(key)) for key in taken)
        return rules.terminal(f"TEXT & ~{lark_regex(written)}")

    def text(self, shape: Text, rules: Rules) -> str:
        if shape.patterns:
            return f"%json {json.dumps(text_schema(shape.least, shape.most, shape.patterns))}"
        if shape.most is None and not shape.least:
            return "TEXT"
        most = "" if shape.most is None else shape.most
        return rules.terminal(lark_regex(f'"{_CHARACTER}{{{shape.least},{most}}}"'))

    def one_of(self, values: Sequence[Any], rules: Rules) -> str:
        # A terminal: a parser has no room for thousands of alternatives.
        texts = [lark_string(_written(value)) for value in values]
        return texts[0] if len(texts) == 1 else rules.terminal(" | ".join(texts))


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
