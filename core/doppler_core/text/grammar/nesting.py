"""How deep the rules of a grammar go: takes a Lark text, refuses what llguidance has no stack for.

The library follows references by recursion, each once, and a stack that overflows ends the process. That was seen from
about 2,000 levels on, on a stack of 8 MiB; other systems give a thread less.
"""

import re

from doppler_core.errors import InputError

_MOST = 250
# What can hold a name that is none: texts, expressions, control tokens, comments.
_OPAQUE = re.compile(r'"(?:[^"\\\n]|\\.)*"|/(?:[^/\\\n]|\\.)*/|<[^>\s]*>|//[^\n]*|#[^\n]*')
_RULE = re.compile(r"^\s*[?!]*([A-Za-z_]\w*)[^:\n]*:", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_]\w*")


def check_rules(lark: str) -> None:
    """InputError where the rules of a Lark text refer to each other in too long a row."""
    pieces = _RULE.split(_OPAQUE.sub(" ", lark))
    rules = {name: _NAME.findall(body) for name, body in zip(pieces[1::2], pieces[2::2], strict=True)}
    entered: set[str] = set()
    waiting = [("start", 1)]
    while waiting:
        name, depth = waiting.pop()
        if name in entered or name not in rules:
            continue
        if depth > _MOST:
            raise InputError(
                f"grammar: values or rules within each other, more than {_MOST} deep, definitions included: write it flatter"
            )
        entered.add(name)
        waiting += [(one, depth + 1) for one in reversed(rules[name])]
