"""Calls and results as text, for formats that have no other form for them: takes messages, gives messages of texts."""

import json
from collections.abc import Sequence

from doppler_core.text.chat.messages import Message, Text, ToolCall, ToolResult


def as_plain(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The conversation in texts: the assistant says what it called, the user tells what came of it.

    A model that was not taught to call tools can so go on with a conversation of one that was. Thoughts are left out.
    """
    return tuple(
        Message("user" if message.role == "tool" else message.role, _texts(message), message.name)
        for message in messages
    )


def _texts(message: Message) -> tuple[Text, ...]:
    texts = tuple(part for part in message.parts if isinstance(part, Text))
    told = [_told(part) for part in message.parts if isinstance(part, ToolCall | ToolResult)]
    return (Text("\n\n".join([message.text.strip(), *told]).strip()),) if told else texts


def _told(part: ToolCall | ToolResult) -> str:
    if isinstance(part, ToolCall):
        return f"I call {part.name} with {json.dumps(part.arguments, ensure_ascii=False)}"
    content = part.content if isinstance(part.content, str) else json.dumps(part.content, ensure_ascii=False)
    return f"{'The error' if part.is_error else 'The result'} of {part.name}: {content.strip()}"
