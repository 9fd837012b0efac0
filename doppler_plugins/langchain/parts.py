"""Content blocks to the parts of core's messages.

Takes a block as `content_blocks` gives it, also one in Anthropic's form; gives a part, or None for one that says nothing
to a model. Nothing is fetched from a network, and nothing is left out in silence.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from doppler_core.errors import InputError
from doppler_core.text.chat.messages import Media, MediaKind, Part, Reasoning, Text, ToolResult

#: Blocks that are a Media.
MEDIA: dict[str, MediaKind] = {"image": "image", "audio": "audio", "video": "video"}

#: The message's own `tool_calls` say what these do, but `redacted_thinking`, which nobody can read.
_SAID_ELSEWHERE = ("tool_call", "tool_call_chunk", "invalid_tool_call", "tool_use", "redacted_thinking")


def part_of(block: Any, where: str) -> Part | None:
    """The part that a block stands for. InputError names `where` and the block's type if there is none."""
    if not isinstance(block, Mapping):
        raise InputError(f"{where}: expected a content block, got {type(block).__name__}")
    kind = block.get("type")
    if kind == "non_standard":
        return part_of(inner(block), where)
    if kind in ("text", "text-plain", "refusal"):
        return Text(_text(block, "refusal" if kind == "refusal" else "text", where))
    if kind == "reasoning":
        return Reasoning(str(block.get("reasoning") or ""))
    if kind == "thinking":
        return Reasoning(_text(block, "thinking", where))
    if kind == "tool_result":
        return _tool_result(block, where)
    if kind in MEDIA:
        return _media(block, MEDIA[kind], where)
    if kind in _SAID_ELSEWHERE:
        return None
    raise InputError(
        f"{where}: a content block of type {kind!r}: expected text, reasoning, image, audio, video or tool_result; take "
        "it out, or put what it says into a text block"
    )


def inner(block: Any) -> Any:
    """The block itself, or what LangChain wrapped because it does not know it."""
    if not isinstance(block, Mapping) or block.get("type") != "non_standard":
        return block
    value = block.get("value")
    return {} if isinstance(value, Mapping) and value.get("type") == "non_standard" else value


def content_of(blocks: Sequence[Any]) -> str | list[Any]:
    """What a tool gave: one text, where its blocks are text; else the values as they are."""
    texts = [
        block if isinstance(block, str) else block.get("text") if _is_text(block) else None
        for block in blocks
    ]
    if all(isinstance(text, str) for text in texts):
        return "".join(str(text) for text in texts)
    return list(blocks)


def _is_text(block: object) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "text"


def _text(block: Mapping[str, Any], key: str, where: str) -> str:
    value = block.get(key)
    if not isinstance(value, str):
        raise InputError(
            f"{where}: a {block.get('type')} block whose {key} is {type(value).__name__}: expected a str"
        )
    return value


def _tool_result(block: Mapping[str, Any], where: str) -> ToolResult:
    content = block.get("content") or ""
    if not isinstance(content, str | list):
        raise InputError(f"{where}: the content of a tool_result is {type(content).__name__}: expected a str")
    return ToolResult(
        content if isinstance(content, str) else content_of(content),
        call_id=str(block.get("tool_use_id") or ""),
        is_error=bool(block.get("is_error")),
    )


def _media(block: Mapping[str, Any], kind: MediaKind, where: str) -> Media:
    media_type = str(block.get("mime_type") or "")
    encoded, url = block.get("base64"), str(block.get("url") or "")
    if encoded is None and url.startswith("data:"):
        head, _, encoded = url[len("data:") :].partition(",")
        media_type = media_type or head.partition(";")[0]
    if isinstance(encoded, bytes | bytearray):
        return Media(kind, bytes(encoded), media_type)
    if not isinstance(encoded, str):
        came = f"the url {url[:80]!r}" if url else "a file_id" if block.get("file_id") else "neither"
        raise InputError(
            f"{where}: {kind} with {came}: expected base64, or a data: url; a model that runs here fetches nothing, so fetch it "
            "first"
        )
    try:
        return Media(kind, base64.b64decode(encoded, validate=True), media_type)
    except (ValueError, binascii.Error) as error:
        raise InputError(f"{where}: the base64 of this {kind} can't be read: {error}") from error
