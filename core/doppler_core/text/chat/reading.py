"""Conversations as chat APIs and frameworks write them: takes mappings, gives Messages.

It knows no chat format: which roles a model has turns for is for the format to say.
"""

from collections.abc import Iterable, Mapping
from typing import Any, get_args

from doppler_core.errors import InputError, UnsupportedModalityError
from doppler_core.text.chat.messages import Message, Part, Reasoning, Role, Text, ToolCall, ToolResult
from doppler_core.text.chat.reading_parts import is_content_part, read_call, read_part
from doppler_core.text.tokenizer import well_formed

_ROLES: tuple[Role, ...] = get_args(Role)
# What LangChain, Gemma and OpenAI's older form call the same.
_OTHER_NAMES: dict[str, Role] = {"human": "user", "ai": "assistant", "model": "assistant", "function": "tool"}
_KEYS = ("role", "content", "name")
_KEYS_OF: dict[Role, tuple[str, ...]] = {
    "assistant": (*_KEYS, "tool_calls", "reasoning_content", "reasoning"),
    "tool": (*_KEYS, "tool_call_id", "is_error"),
}


def read_messages(messages: Iterable[Message | Mapping[str, Any]]) -> tuple[Message, ...]:
    """Check a conversation: Messages, or mappings with `role` and `content` as OpenAI's.

    content: a text, None, or a list of parts: texts, {"type": "text"}, "reasoning", "image_url", "input_audio".
    The assistant's may have `tool_calls` and `reasoning_content`. A tool's has `tool_call_id`, `name` or both, and its
    content may be any JSON object or list.
    InputError names the message and what it holds that can't be read: nothing that was said is left out in silence.
    """
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
        raise InputError(
            f"messages: expected a list of messages with `role` and `content`, got {type(messages).__name__}"
        )
    found = tuple(_message(message, f"message {index}") for index, message in enumerate(messages))
    if not found:
        raise InputError("messages: expected at least one message, got none")
    return found


def _message(message: object, where: str) -> Message:
    if isinstance(message, Message):
        role = _role(message.role, where)
        return Message(role, _parts(message.parts, role, where), _name(message.name, where))
    if not isinstance(message, Mapping):
        raise InputError(f"{where}: expected `role` and `content`, got {type(message).__name__}")
    role = _role(message.get("role"), where)
    known = _KEYS_OF.get(role, _KEYS)
    if unread := [str(key) for key, value in message.items() if key not in known and value]:
        raise InputError(f"{where}: {', '.join(unread)}: expected {', '.join(known)} alone; take it out")
    if role != "assistant" and "content" not in message:
        raise InputError(
            f"{where}: content is missing: expected it in every message but an assistant's with calls"
        )
    content, name = message.get("content"), _name(message.get("name"), where)
    if role == "tool":
        number, is_error = message.get("tool_call_id") or "", bool(message.get("is_error"))
        result = ToolResult(_result_content(content, where), name or "", number, is_error)
        return Message(role, _parts([result], role, where))
    if isinstance(content, str):
        content = [content]
    if not isinstance(content, list | tuple | None):
        raise InputError(f"{where}: content is {type(content).__name__}: expected a text or a list of parts")
    parts = _parts(content or (), role, where)
    if role == "assistant":
        parts = (*_reasoning(message, where), *parts, *_calls(message.get("tool_calls"), where))
    return Message(role, parts, name)


def _role(role: object, where: str) -> Role:
    known = _OTHER_NAMES.get(role, role) if isinstance(role, str) else role
    if known not in _ROLES:
        raise InputError(f"{where}: role is {role!r}: expected one of {', '.join(_ROLES)}")
    found: Role = known
    return found


def _name(name: object, where: str) -> str | None:
    if not isinstance(name, str | None):
        raise InputError(f"{where}: name is {type(name).__name__}: expected a str")
    return well_formed(name) if name else name


def _parts(parts: Iterable[object], role: Role, where: str) -> tuple[Part, ...]:
    found = tuple(read_part(part, f"{where}, part {number}") for number, part in enumerate(parts))
    for number, part in enumerate(found):
        if isinstance(part, ToolResult) != (role == "tool"):
            raise InputError(
                f"{where}, part {number}: {type(part).__name__}: a tool's message holds results, and no other does"
            )
        if isinstance(part, ToolCall | Reasoning) and role != "assistant":
            raise InputError(
                f"{where}, part {number}: {type(part).__name__} in a message of role {role}: expected it in the assistant's"
            )
    if role == "tool" and not found:
        raise InputError(f"{where}: a tool's message without a result")
    return found


def _reasoning(message: Mapping[str, Any], where: str) -> tuple[Reasoning, ...]:
    said = message.get("reasoning_content") or message.get("reasoning")
    if not isinstance(said, str | None):
        raise InputError(f"{where}: reasoning_content is {type(said).__name__}: expected a str")
    return (Reasoning(well_formed(said)),) if said else ()


def _calls(calls: object, where: str) -> tuple[ToolCall, ...]:
    if not isinstance(calls, list | tuple | None):
        raise InputError(f"{where}: tool_calls is {type(calls).__name__}: expected a list")
    return tuple(read_call(call, f"{where}, tool_calls {at}") for at, call in enumerate(calls or ()))


def _result_content(content: Any, where: str) -> Any:
    """What a tool gave: a list of texts as content parts is one text, a line break between them."""
    if content is None:
        return ""
    if not isinstance(content, list | tuple) or not any(map(is_content_part, content)):
        return content
    parts = [read_part(part, f"{where}, part {number}") for number, part in enumerate(content)]
    for number, part in enumerate(parts):
        if not isinstance(part, Text):
            raise UnsupportedModalityError(
                f"{where}, part {number}: {getattr(part, 'kind', 'reasoning')} in a tool's result: expected text or data"
            )
    return "\n".join(part.text for part in parts if isinstance(part, Text))
