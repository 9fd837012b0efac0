"""Finds the call of each tool's result: takes messages, gives them with every result named. It knows no chat format."""

from collections.abc import Sequence
from dataclasses import replace

from doppler_core.errors import InputError
from doppler_core.text.chat.messages import Message, Part, ToolCall, ToolResult


def paired(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages, each result with the name of its call: the one of its id, else of its name, else the first that
    has no result yet.

    Raises InputError for a result without a call before it in the same turn, and for last calls without their results:
    a model would make them up.
    """
    found: list[Message] = []
    waiting: list[ToolCall] = []
    caller = 0
    for index, message in enumerate(messages):
        if message.role == "tool":
            message = replace(message, parts=tuple(_named(part, waiting, index) for part in message.parts))
        elif message.role != "assistant":
            waiting.clear()
        elif calls := [part for part in message.parts if isinstance(part, ToolCall)]:
            waiting += calls
            caller = index
        found.append(message)
    if waiting:
        names = ", ".join(call.name for call in waiting)
        raise InputError(
            f"message {caller}: calls without a result at the end: {names}: give a tool's message for each, for the model "
            "to go on from"
        )
    return tuple(found)


def _named(part: Part, waiting: list[ToolCall], index: int) -> Part:
    if not isinstance(part, ToolResult):
        return part
    for call in waiting:
        if _is_of(part, call):
            waiting.remove(call)
            return replace(part, name=call.name)
    which = f" of the call {part.call_id!r}" if part.call_id else f" of {part.name}" if part.name else ""
    raise InputError(
        f"message {index}: a tool's result{which} without its call: expected it after the assistant's message that makes "
        "the call, once"
    )


def _is_of(result: ToolResult, call: ToolCall) -> bool:
    if result.call_id and call.id:
        return result.call_id == call.id
    return result.name in ("", call.name)
