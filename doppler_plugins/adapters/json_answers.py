"""Data in an answer: takes its text and how it ended, gives the value, or says what is in its way. Nothing is repaired."""

import json
from typing import Any

from doppler_core.errors import OutputError

_QUOTED = 60  # characters: the end of a text tells most


def json_value(text: str, finish_reason: str | None, stop: str | None) -> Any:
    """The value of a JSON text. stop: the stop text that ended it.

    OutputError for any other text, with what cut it, and for a number that was cut, which may be another number.
    """
    cut = _cut(finish_reason, stop)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OutputError(f"the answer {cut or f'is not JSON ({error})'}; it ends {_end(text)}") from error
    if cut and not isinstance(value, dict | list | str):
        raise OutputError(f"the answer {cut}; it ends {_end(text)}")
    return value


def _cut(finish_reason: str | None, stop: str | None) -> str:
    if stop is not None:
        return f"was cut at the stop text {stop!r}: leave that out of `stop`"
    if finish_reason == "length":
        return "was cut at max_tokens, or at the end of the context: allow more"
    return ""


def _end(text: str) -> str:
    return repr(text[-_QUOTED:]) if text else "before it begins"
