"""Conversations as chat APIs and frameworks write them: takes mappings, gives Messages.

It knows no chat format: which roles a model has turns for is for the format to say.
"""

from collections.abc import Iterable, Mapping
from typing import Any, get_args

from doppler_core.errors import InputError
from doppler_core.text.chat.messages import Message, Role, Text
from doppler_core.text.tokenizer import well_formed

_ROLES: tuple[Role, ...] = get_args(Role)
# What LangChain and Gemma call the same two.
_OTHER_NAMES: dict[str, Role] = {"human": "user", "ai": "assistant", "model": "assistant"}
_READ = ("role", "content")


def read_messages(messages: Iterable[Message | Mapping[str, Any]]) -> tuple[Message, ...]:
    """Check a conversation: mappings with `role` and `content`, which is a text, None, or a list of texts and
    {"type": "text", "text": ...}. InputError names the message and what it holds that can't be rendered: nothing that
    was said is left out in silence."""
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
        raise InputError(
            f"messages: expected a list of messages with `role` and `content`, got {type(messages).__name__}"
        )
    found = tuple(_message(message, index) for index, message in enumerate(messages))
    if not found:
        raise InputError("messages: expected at least one message, got none")
    return found


def _message(message: object, index: int) -> Message:
    if isinstance(message, Message):
        return message
    where = f"message {index}"
    if not isinstance(message, Mapping):
        raise InputError(f"{where}: expected `role` and `content`, got {type(message).__name__}")
    role = message.get("role")
    role = _OTHER_NAMES.get(role, role) if isinstance(role, str) else role
    if role not in _ROLES:
        raise InputError(f"{where}: role is {role!r}: expected one of {', '.join(_ROLES)}")
    if unread := [str(key) for key, value in message.items() if key not in _READ and value]:
        raise InputError(f"{where}: {', '.join(unread)}: expected role and content alone; take it out")
    return Message(role, _parts(message.get("content"), where))


def _parts(content: object, where: str) -> tuple[Text, ...]:
    if content is None:
        return ()
    if isinstance(content, str):
        return (Text(well_formed(content)),)
    if not isinstance(content, list | tuple):
        raise InputError(f"{where}: content is {type(content).__name__}: expected a text or a list of parts")
    return tuple(_part(part, f"{where}, part {number}") for number, part in enumerate(content))


def _part(part: object, where: str) -> Text:
    if isinstance(part, Text):
        return part
    if isinstance(part, str):
        return Text(well_formed(part))
    if not isinstance(part, Mapping):
        raise InputError(f"{where}: expected a text, got {type(part).__name__}")
    kind, text = part.get("type", "text"), part.get("text")
    if kind != "text":
        raise InputError(f"{where}: type is {kind!r}: this version reads text; take the part out")
    if not isinstance(text, str):
        raise InputError(f"{where}: text is {type(text).__name__}: expected a str")
    return Text(well_formed(text))
