"""A request to generate as somebody built it: takes one, gives InputError with the field that is not what it has to be.

What only the model knows (its context, its chat format) is checked by its driver.
"""

import math
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

from doppler_core.engine.request import GenerateRequest
from doppler_core.engine.sampling_check import check_sampling
from doppler_core.errors import InputError
from doppler_core.plan.sampling import TOP_LOGPROBS
from doppler_core.text.chat import Message
from doppler_core.text.grammar import Grammar

_TEXTS = (str, bytes, bytearray, memoryview)  # sequences whose members may pass for token ids, and are none


def check_generate_request(request: Any, vocabulary: int | None = None) -> None:
    """InputError names the first field of a wrong type or size. vocabulary: how many tokens there are, where that is
    known."""
    if not isinstance(request, GenerateRequest):
        raise InputError(f"expected a GenerateRequest, got {_kind(request)}")
    check_prompt(request.prompt, vocabulary)
    if not isinstance(request.chat_format, str | None):
        raise InputError(f"chat_format is {_kind(request.chat_format)}: expected a name, or None")
    check_sampling(request, vocabulary)
    check_count("max_tokens", request.max_tokens)
    check_count("logprobs", request.logprobs, TOP_LOGPROBS)
    for index, stop in enumerate(stop_strings(request)):
        if not isinstance(stop, str) or not stop:
            raise InputError(f"stop {index} is {stop!r}: expected a str that is not empty")
    if isinstance(request.stop_ids, _TEXTS) or not isinstance(request.stop_ids, Sequence):
        raise InputError(f"stop_ids is {_kind(request.stop_ids)}: expected a tuple of token ids")
    for index, number in enumerate(request.stop_ids):
        _check_id(f"stop_ids {index}", number, vocabulary)
    check_flag("ignore_eos", request.ignore_eos)
    if request.mask is not None and not callable(request.mask):
        raise InputError(
            f"mask is {_kind(request.mask)}: expected a function that makes a TokenMask, or None"
        )
    _check_tools(request)
    _check_canvases(request)
    if request.overflow not in ("error", "truncate_left"):
        raise InputError(f"overflow={request.overflow!r}: expected 'error' or 'truncate_left'")


def stop_strings(request: GenerateRequest) -> tuple[str, ...]:
    """The request's stop strings: one may stand alone."""
    if isinstance(request.stop, str):
        return (request.stop,)
    if not isinstance(request.stop, Sequence):
        raise InputError(f"stop is {_kind(request.stop)}: expected a str, or a list of str")
    return tuple(request.stop)


def check_prompt(prompt: object, vocabulary: int | None = None) -> None:
    """InputError for what is no text, no token ids and no messages."""
    if isinstance(prompt, str):
        return
    if isinstance(prompt, _TEXTS) or not isinstance(prompt, Sequence):
        raise InputError(f"prompt is {_kind(prompt)}: expected a str, token ids, or messages")
    if not prompt:
        raise InputError("prompt is empty: expected a str, token ids, or messages")
    if all(isinstance(one, Mapping | Message) for one in prompt):
        return
    if all(isinstance(one, str) for one in prompt):
        raise InputError("prompt is a list of texts: submit one request for each")
    for index, one in enumerate(prompt):
        _check_id(f"prompt {index}", one, vocabulary)


def _check_tools(request: GenerateRequest) -> None:
    if isinstance(request.tools, str | Mapping) or not isinstance(request.tools, Sequence):
        raise InputError(f"tools is {_kind(request.tools)}: expected a tuple of tools")
    if not isinstance(request.tool_choice, str):
        raise InputError(
            f"tool_choice is {_kind(request.tool_choice)}: expected auto, none, required, or a tool's name"
        )
    if request.tool_choice not in ("auto", "none") and not request.tools:
        raise InputError(f"tool_choice={request.tool_choice!r}: there are no tools to choose from")
    for name in ("parallel_tool_calls", "thinking"):
        check_flag(name, getattr(request, name))
    if request.constrain_tools is not None:
        check_flag("constrain_tools", request.constrain_tools)
    if request.grammar is not None and not isinstance(request.grammar, Grammar):
        raise InputError(
            f"grammar is {_kind(request.grammar)}: expected a JsonSchema, Regex or Lark, or None"
        )
    if request.mask is not None and (request.grammar is not None or request.tools):
        raise InputError("mask: grammar and tools make one of their own: give one of them alone")


def _check_canvases(request: GenerateRequest) -> None:
    """Steps, drafts and noise, of a model that has canvases."""
    check_count("steps", request.steps, least=1)
    check_flag("drafts", request.drafts)
    noise = request.noise
    if noise is not None and not all(callable(getattr(noise, name, None)) for name in ("first", "step")):
        raise InputError(f"noise is {_kind(noise)}: expected a CanvasNoise, with `first` and `step`, or None")


def check_flag(name: str, value: object) -> None:
    """InputError for anything but True and False."""
    if not isinstance(value, bool):
        raise InputError(f"{name} is {_kind(value)}: expected True or False")


def check_count(name: str, value: object, most: int | None = None, least: int = 0) -> None:
    """InputError for anything but a whole number in these limits, or None."""
    if value is None:
        return
    wanted = f"{least} or more" if most is None else f"{least} to {most}"
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InputError(f"{name} is {_kind(value)}: expected a whole number, {wanted}, or None")
    if int(value) < least or (most is not None and int(value) > most):
        raise InputError(f"{name}={value}: expected {wanted}, or None")


def _check_id(name: str, number: object, vocabulary: int | None) -> None:
    is_whole = isinstance(number, Integral) and not isinstance(number, bool)
    beyond = math.inf if vocabulary is None else vocabulary
    if not is_whole or not 0 <= int(number) < beyond:  # type: ignore[call-overload]
        ids = "" if vocabulary is None else f", 0 to {vocabulary - 1}"
        raise InputError(f"{name} is {number!r}: expected a token id{ids}")


def _kind(value: object) -> str:
    return type(value).__name__
