"""Conversations that can be counted: takes any part of one, gives one that a model can read.

`trim_messages` and middleware count parts of a history, which may begin with a tool's result or end with a call; no
model could go on from those. What is missing is put in as short as it can be. It knows no tokens.
"""

from collections.abc import Sequence
from dataclasses import replace

from doppler_core.text.chat.messages import Message, ToolCall, ToolResult


def countable(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages, with an empty result for each call that has none, and an empty call for each result without one.

    A whole conversation comes back as it is.
    """
    found: list[Message] = []
    waiting: list[ToolCall] = []
    for message in messages:
        if message.role != "tool":
            found += _answered(waiting)
            waiting = [part for part in message.parts if isinstance(part, ToolCall)]
            found.append(message)
            continue
        orphans = [
            part for part in message.parts if isinstance(part, ToolResult) and not _take(part, waiting)
        ]
        if not orphans:
            found.append(message)
            continue
        if taken := tuple(part for part in message.parts if part not in orphans):
            found.append(replace(message, parts=taken))
        found += _answered(waiting)
        waiting = []
        found.append(Message("assistant", tuple(_call_of(result) for result in orphans)))
        found.append(replace(message, parts=tuple(orphans)))
    return (*found, *_answered(waiting))


def _answered(waiting: Sequence[ToolCall]) -> list[Message]:
    results = tuple(ToolResult("", call.name, call.id) for call in waiting)
    return [Message("tool", results)] if results else []


def _call_of(result: ToolResult) -> ToolCall:
    return ToolCall(result.name or "tool", {}, result.call_id)


def _take(result: ToolResult, waiting: list[ToolCall]) -> bool:
    for call in waiting:
        if result.call_id == call.id if result.call_id and call.id else result.name in ("", call.name):
            waiting.remove(call)
            return True
    return False
