"""A request as somebody built it: takes one, gives InputError with the field that is not what it has to be.

Dataclasses check no types, and a str is a sequence of str: unchecked, "eggs" would be four texts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from numbers import Integral
from typing import Any

from doppler_core.engine.request import EmbedRequest, GenerateRequest
from doppler_core.errors import InputError


def check_texts(texts: object) -> None:
    """InputError for one text, or bytes, in place of a collection of texts, and for what is none."""
    if isinstance(texts, str | bytes | bytearray):
        raise InputError(f"texts: expected a list of str, got one {type(texts).__name__}: put it in a list")
    if not isinstance(texts, Iterable):
        raise InputError(f"texts: expected a list of str, got {_kind(texts)}")


def check_options(kind: type[EmbedRequest] | type[GenerateRequest], options: Mapping[str, object]) -> None:
    """InputError for an option that is no field of this kind of request; it names the nearest one."""
    _, *known = (field.name for field in fields(kind))
    for name in options:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"expected some of {', '.join(known)}"
            raise InputError(f"{kind.__name__} has no option {name!r}: {hint}")


def check_embed_request(request: Any) -> None:
    """InputError names the first field of a wrong type, and the index of a text that is no str."""
    if not isinstance(request, EmbedRequest):
        raise InputError(f"expected an EmbedRequest, got {_kind(request)}")
    check_texts(request.texts)
    _check("texts", request.texts, Sequence, "a list or tuple of str")
    for index, text in enumerate(request.texts):
        _check(f"text {index}", text, str, "a str")
    _check("prompt_name", request.prompt_name, str, "the name of a prompt")
    _check("prompt", request.prompt, str | None, "a str, or None")
    _check("dimensions", request.dimensions, Integral | None, "a whole number, or None")
    _check("output_dtype", request.output_dtype, str, "float32, int8 or binary")
    _check("overflow", request.overflow, str, "'error' or 'truncate'")
    if request.overflow not in ("error", "truncate"):
        raise InputError(f"overflow={request.overflow!r}: expected 'error' or 'truncate'")
    if request.titles is not None:
        _check_titles(request.titles, len(request.texts))


def _check_titles(titles: object, count: int) -> None:
    if isinstance(titles, str) or not isinstance(titles, Sequence):
        raise InputError(f"titles: expected a str or None for each text, got {_kind(titles)}")
    if len(titles) != count:
        raise InputError(f"{len(titles)} titles for {count} texts: expected one for each, or None")
    for index, title in enumerate(titles):
        _check(f"title {index}", title, str | None, "a str, or None")


def _check(name: str, value: object, kind: Any, expected: str) -> None:
    if not isinstance(value, kind):
        raise InputError(f"{name} is {_kind(value)}: expected {expected}")


def _kind(value: object) -> str:
    return type(value).__name__
