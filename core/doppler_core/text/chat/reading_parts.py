"""One part of a message: takes what somebody wrote, gives a checked part. It knows nothing of the messages around it."""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any

from doppler_core.errors import InputError
from doppler_core.text.chat.json_values import json_object, json_value
from doppler_core.text.chat.messages import Media, MediaKind, Part, Reasoning, Text, ToolCall, ToolResult
from doppler_core.text.chat.tools import check_name
from doppler_core.text.tokenizer import well_formed

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w.+=-]+)*;base64,", re.ASCII)
_BARE_MEDIA: dict[str, MediaKind] = {"image": "image", "audio": "audio", "video": "video"}


def read_part(part: object, where: str) -> Part:
    """A part, a text, or a mapping as OpenAI's content parts; InputError says what is wrong where."""
    match part:
        case str():
            return Text(well_formed(part))
        case Text(text):
            return Text(_text(text, where, "text"))
        case Reasoning(text):
            return Reasoning(_text(text, where, "text"))
        case ToolCall(name, arguments, number):
            checked = json_object(arguments, f"{where}: arguments")
            return ToolCall(check_name(name, where), checked, _text(number, where, "id"))
        case ToolResult():
            return _result(part, where)
        case Media():
            return part
        case Mapping():
            return _mapping(part, where)
    raise InputError(f"{where}: expected a text, got {type(part).__name__}")


def read_call(call: object, where: str) -> ToolCall:
    """A call as OpenAI has it: {"id", "type": "function", "function": {"name", "arguments"}}, arguments as an object
    or as JSON in a text."""
    if isinstance(call, ToolCall):
        checked = read_part(call, where)
        assert isinstance(checked, ToolCall)
        return checked
    body = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(body, Mapping):
        raise InputError(f'{where}: expected {{"id", "function": {{"name", "arguments"}}}}')
    name = check_name(body.get("name"), where)
    where = f"{where} ({name}): arguments"
    arguments = body.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where}: expected a JSON object, got text that is none: {error}") from None
    return ToolCall(name, json_object(arguments or {}, where), _text(call.get("id") or "", where, "id"))


def is_content_part(value: object) -> bool:
    """Whether a value is a part of a content rather than data."""
    kinds = ("text", "image_url", "input_audio", *_BARE_MEDIA)
    return isinstance(value, Mapping) and value.get("type") in kinds


def _mapping(part: Mapping[Any, Any], where: str) -> Part:
    kind = part.get("type", "text")
    if kind == "text":
        return Text(_text(part.get("text"), where, "text"))
    if kind == "reasoning":
        return Reasoning(_text(part.get("reasoning", part.get("text")), where, "reasoning"))
    if kind == "image_url":
        url = part.get("image_url")
        return _image(url.get("url") if isinstance(url, Mapping) else url, where)
    if kind == "input_audio":
        audio = part.get("input_audio")
        if not isinstance(audio, Mapping):
            raise InputError(f'{where}: input_audio: expected {{"data", "format"}}')
        return Media("audio", _bytes(audio.get("data"), where), f"audio/{audio.get('format', 'wav')}")
    if kind in _BARE_MEDIA and set(part) <= {"type"}:
        return Media(_BARE_MEDIA[kind])
    raise InputError(
        f"{where}: type is {kind!r}: expected text, reasoning, image_url or input_audio; take the part out"
    )


def _result(result: ToolResult, where: str) -> ToolResult:
    content = json_value(result.content, f"{where}: content")
    if not isinstance(content, str | dict | list):
        raise InputError(
            f"{where}: content is {type(content).__name__}: expected a text, an object or a list"
        )
    name, number = _text(result.name, where, "name"), _text(result.call_id, where, "call_id")
    return ToolResult(content, check_name(name, where) if name else "", number, bool(result.is_error))


def _image(url: object, where: str) -> Media:
    found = _DATA_URL.match(url) if isinstance(url, str) else None
    if found is None or not isinstance(url, str):
        raise InputError(
            f"{where}: image_url: expected a URL data:image/...;base64,...: nothing is fetched from elsewhere"
        )
    return Media("image", _bytes(url[found.end() :], where), found[1])


def _bytes(data: object, where: str) -> bytes:
    try:
        return base64.b64decode(data if isinstance(data, str) else "?", validate=True)
    except (binascii.Error, ValueError):
        raise InputError(f"{where}: expected data in base64") from None


def _text(value: object, where: str, what: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{where}: {what} is {type(value).__name__}: expected a str")
    return well_formed(value)
