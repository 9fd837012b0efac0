"""JSON as the standard has it: takes a text, gives its value, or says what is wrong with it. It knows no file."""

import json
import math
import re
from collections import Counter
from typing import Any, NoReturn

# What a text needs to hold half of a pair: to look for it in the value takes as long as to read it.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
_SHOWN = 200


def strict_json(text: str, deepest: int) -> Any:
    """The value of `text`, whose lists and objects are at most `deepest` deep.

    ValueError, in words that go on from a file's name: not JSON, a key twice in one object, NaN or an infinity, a whole
    number of thousands of digits, half of a surrogate pair, nested too deep.
    """
    too_deep = ValueError(f"nested too deep; expected at most {deepest} levels")
    try:
        value = json.loads(
            text,
            object_pairs_hook=_unique_keys,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_whole,
        )
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON at line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise too_deep from None
    except UnicodeEncodeError:
        raise ValueError("a string holds half of a surrogate pair; remove it") from None
    if text.count("[") + text.count("{") > deepest and _is_deeper(value, deepest):
        raise too_deep
    return value


def shortened(text: str, limit: int = _SHOWN) -> str:
    """As much of `text` as a message shows."""
    return text if len(text) <= limit else f"{text[:limit]}..."


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {shortened(json.dumps(twice))} stands twice in one object; remove one")
    return found


def _refuse_constant(literal: str) -> NoReturn:
    raise ValueError(f"{shortened(literal)} is not a JSON number; expected a finite number")


def _finite(literal: str) -> float:
    value = float(literal)
    return value if math.isfinite(value) else _refuse_constant(literal)


def _whole(literal: str) -> int:
    try:
        return int(literal)
    except ValueError:  # Python refuses to read thousands of digits
        raise ValueError("a number has too many digits") from None


def _is_deeper(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            child
            for parent in level
            if isinstance(parent, dict | list)
            for child in (parent.values() if isinstance(parent, dict) else parent)
        ]
    return any(isinstance(child, dict | list) for child in level)
