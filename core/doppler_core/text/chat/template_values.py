"""What a template is given: takes messages and tools, gives the plain values that transformers' templates expect.

Every text of somebody else goes through `said` on its way, keys of arguments and schemas included; the words of the
form itself (roles, types of parts) do not.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from doppler_core.text.chat.messages import Message, Reasoning, Tool, ToolCall, ToolResult

Said = Callable[[str], str]


def template_values(
    messages: Sequence[Message], tools: Sequence[Tool], said: Said
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The conversation and the tools, as OpenAI's mappings; the arguments of a call are an object."""
    turns = [turn for message in messages for turn in _turns(message, said)]
    return turns, [
        _function(tool.name, said, description=tool.description, parameters=tool.parameters) for tool in tools
    ]


def texts_in(value: object) -> Iterator[str]:
    """Every text in a value of mappings and lists, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield key
            yield from texts_in(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from texts_in(one)


def _turns(message: Message, said: Said) -> list[dict[str, Any]]:
    if message.role == "tool":
        return [_result(part, said) for part in message.parts if isinstance(part, ToolResult)]
    turn: dict[str, Any] = {"role": message.role, "content": said(message.text)}
    calls = [part for part in message.parts if isinstance(part, ToolCall)]
    if calls:
        turn["tool_calls"] = [
            {"id": said(call.id), **_function(call.name, said, arguments=call.arguments)} for call in calls
        ]
    if thoughts := [part.text for part in message.parts if isinstance(part, Reasoning)]:
        turn["reasoning_content"] = said("\n".join(thoughts))
    return [turn]


def _result(result: ToolResult, said: Said) -> dict[str, Any]:
    content = result.content
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    found = {"role": "tool", "name": said(result.name), "content": said(text)}
    return {**found, "tool_call_id": said(result.call_id)} if result.call_id else found


def _function(name: str, said: Said, **values: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": said(name), **_changed(values, said, keys=False)}}


def _changed(value: Any, said: Said, keys: bool = True) -> Any:
    if isinstance(value, str):
        return said(value)
    if isinstance(value, Mapping):
        return {said(key) if keys else key: _changed(one, said) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_changed(one, said) for one in value]
    return value
