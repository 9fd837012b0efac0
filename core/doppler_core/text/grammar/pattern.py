"""What a text has to match, as expressions that hold for the whole of it: takes `pattern`, `format` and the pattern of a
Regex, gives them.

JSON Schema looks for a pattern anywhere in a text, and its anchors say otherwise; a grammar has no anchors.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from doppler_core.errors import InputError
from doppler_core.text.grammar.expression import (
    EVERYBODY,
    PYTHON,
    Branch,
    Readers,
    Refused,
    read_expression,
)
from doppler_core.text.grammar.library_check import regex_fault
from doppler_core.text.grammar.schema_keys import fault

_ANY = "(?s:.*)"
_BYTE = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = rf"{_BYTE}(\.{_BYTE}){{3}}"
_GROUP = "[0-9a-fA-F]{1,4}"
_SHORTENED = "|".join(
    f"({_GROUP}(:{_GROUP}){{0,{left}}})?::({_GROUP}(:{_GROUP}){{0,{5 - left}}})?" for left in range(6)
)
_DAY = "[12][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
_CLOCK = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
_DAYS = "([0-9]{1,3}Y([0-9]{1,3}M)?([0-9]{1,5}D)?|[0-9]{1,3}M([0-9]{1,5}D)?|[0-9]{1,5}D)"
_HOURS = "T([0-9]{1,4}H([0-9]{1,4}M)?([0-9]{1,4}S)?|[0-9]{1,4}M([0-9]{1,4}S)?|[0-9]{1,4}S)"
_LABEL = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_LAST_LABEL = "[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"  # with a digit, it may be no address
_PERSON = "[A-Za-z0-9_%+'-]{1,32}"
_SIGN = "([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
_PORT = "([1-9][0-9]{0,3}|[1-5][0-9]{4})"

# Each is a part of what the format allows, and no more: of February, 28 days.
FORMATS: Mapping[str, str] = {
    "date": _DAY,
    "time": _CLOCK,
    "date-time": f"{_DAY}T{_CLOCK}",
    "duration": f"P({_DAYS}({_HOURS})?|{_HOURS}|[0-9]{{1,5}}W)",
    "email": rf"{_PERSON}(\.{_PERSON}){{0,3}}@({_LABEL}\.){{1,3}}{_LAST_LABEL}",
    "hostname": rf"({_LABEL}\.){{0,4}}{_LAST_LABEL}",
    "ipv4": _IPV4,
    "ipv6": f"{_GROUP}(:{_GROUP}){{7}}|{_SHORTENED}",
    "uuid": "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
    "uri": (
        rf"[a-z][a-z0-9+]{{1,15}}://({_PERSON}@)?(({_LABEL}\.){{0,4}}{_LAST_LABEL}|{_IPV4})(:{_PORT})?"
        rf"(/{_SIGN}*)*(\?({_SIGN}|[/?])*)?(#({_SIGN}|[/?])*)?"
    ),
}
# They say what a text is for, and limit it in no way that a grammar could follow.
_SAYING = (
    *(
        "password",
        "path",
        "file-path",
        "directory-path",
        "binary",
        "byte",
        "base64",
        "base64url",
        "json-string",
    ),
    *("int32", "int64", "float", "double", "decimal", "color", "regex"),
)
# What pydantic writes for a Decimal looks ahead; the same without.
_WITHOUT_LOOKING = {r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$": r"^[+-]?(\d+\.?\d*|\.\d+)$"}


def format_pattern(name: str, path: str) -> str | None:
    """The pattern of a format; None where it limits nothing. InputError: it is unknown."""
    if name in _SAYING:
        return None
    if name not in FORMATS:
        raise fault(path, "format", f"{name[:50]!r} is unknown: take it out, or one of {', '.join(FORMATS)}")
    return FORMATS[name]


def whole_pattern(pattern: str, path: str) -> str:
    """The expression that a text matches as a whole where `pattern` is found in it.

    InputError: it can't be held: look-around, back-references, anchors but at its ends.
    """
    try:
        return _held(_WITHOUT_LOOKING.get(pattern, pattern), EVERYBODY, _found)
    except Refused as error:
        raise fault(path, "pattern", _cant(pattern, error)) from None


def full_pattern(pattern: str) -> str:
    """The expression that a text matches as a whole where Python's `re.fullmatch` matches it with `pattern`.

    InputError: it can't be held.
    """
    try:
        return _held(pattern, PYTHON, lambda branch: f"(?:{branch.body})")
    except Refused as error:
        raise InputError(f"grammar: {_cant(pattern, error)}") from None


def _held(pattern: str, readers: Readers, written: Callable[[Branch], str]) -> str:
    """The branches of a pattern as they are written; Refused where they can't be held."""
    expression = read_expression(pattern, readers)
    if expression.is_disputed and not regex_fault(pattern):
        raise Refused(r"a [, &&, -- or ~~ in a class, which some read as sets: write \[, \&, \-, \~")
    whole = "|".join(map(written, expression.branches))
    if whole_fault := regex_fault(whole):
        raise Refused(whole_fault)
    return whole


def _found(branch: Branch) -> str:
    """A text in which the branch is found."""
    return f"{'' if branch.begins else _ANY}(?:{branch.body}){'' if branch.ends else _ANY}"


def _cant(pattern: str, why: Refused) -> str:
    return f"{pattern[:100]!r} can't be held by a grammar: {why}"


def text_schema(least: int, most: int | None, patterns: Sequence[str]) -> dict[str, Any]:
    """A text that matches all of these as a whole, as llguidance reads JSON Schema."""
    counts = {"minLength": least} | ({} if most is None else {"maxLength": most})
    return {"type": "string", "allOf": [{"pattern": f"^(?:{pattern})$"} for pattern in patterns], **counts}
