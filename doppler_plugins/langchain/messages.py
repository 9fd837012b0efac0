"""LangChain's messages to core's.

Takes messages whose content is a text, standard blocks of v0 or v1, or OpenAI's or Anthropic's; `content_blocks` is the
one way in. It knows no chat format: what a model has no turn for is for its format to say.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from doppler_core.errors import InputError
from doppler_core.text.chat.messages import Message, Part, Role, Text, ToolCall, ToolResult
from doppler_plugins.langchain.parts import MEDIA, content_of, inner, part_of

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
}


def core_messages(messages: Sequence[BaseMessage]) -> tuple[Message, ...]:
    """The conversation in core's form. InputError names the message that has none.

    A call that could not be read (`invalid_tool_calls`) was never run and is left out.
    """
    found: list[Message] = []
    for index, message in enumerate(messages):
        where = f"message {index}"
        if isinstance(message, ToolMessage):
            found.append(_tool_turn(message, where))
            continue
        role, parts = _role(message, where), _parts(message, where)
        if role == "user" and (results := [part for part in parts if isinstance(part, ToolResult)]):
            # Anthropic's users bring the results.
            found.append(Message("tool", tuple(results)))
            parts = tuple(part for part in parts if not isinstance(part, ToolResult))
            if not parts:
                continue
        found.append(Message(role, parts, message.name))
    return tuple(found)


def _role(message: BaseMessage, where: str) -> Role:
    if isinstance(message, SystemMessage):
        # How LangChain's converters keep OpenAI's developer turns.
        return "developer" if message.additional_kwargs.get("__openai_role__") == "developer" else "system"
    if isinstance(message, HumanMessage):
        return "user"
    if isinstance(message, AIMessage):
        return "assistant"
    if isinstance(message, FunctionMessage):
        return "tool"
    if isinstance(message, ChatMessage) and message.role in _ROLES:
        return _ROLES[message.role]
    if not isinstance(message, BaseMessage):
        raise InputError(
            f"{where}: {type(message).__name__}: expected a message; langchain_core's convert_to_messages makes them"
        )
    called = getattr(message, "role", message.type)
    raise InputError(
        f"{where}: {type(message).__name__} with the role {called!r}: expected a system, human, AI or tool message"
    )


def _parts(message: BaseMessage, where: str) -> tuple[Part, ...]:
    if isinstance(message, FunctionMessage):
        return (ToolResult(message.text, name=message.name),)
    if isinstance(message.content, str) and not isinstance(message, AIMessage):
        return (Text(message.content),) if message.content else ()
    blocks = _blocks(message, where)
    parts = [part_of(block, f"{where}, part {number}") for number, block in enumerate(blocks)]
    calls = _calls(message, blocks, where) if isinstance(message, AIMessage) else []
    return (*(part for part in parts if part is not None), *calls)


def _blocks(message: BaseMessage, where: str) -> Sequence[Any]:
    try:
        return message.content_blocks
    except Exception as error:
        # LangChain's translators of other models' blocks take these to be whole.
        raise InputError(f"{where}: its content blocks can't be read: {error!r}") from error


def _calls(message: AIMessage, blocks: Sequence[Any], where: str) -> list[ToolCall]:
    calls = [ToolCall(call["name"], call["args"], call.get("id") or "") for call in message.tool_calls]
    known = {call.id for call in calls}
    # A message made of blocks alone may have calls that its `tool_calls` lack.
    written = [_call(block, where) for block in blocks if block.get("type") == "tool_call"]
    return calls + [call for call in written if call.id not in known]


def _call(block: Mapping[str, Any], where: str) -> ToolCall:
    name, arguments, number = block.get("name"), block.get("args"), block.get("id") or ""
    if not (isinstance(name, str) and isinstance(arguments, Mapping) and isinstance(number, str)):
        raise InputError(f"{where}: a tool_call block without a name, or whose args are no mapping")
    return ToolCall(name, arguments, number)


def _tool_turn(message: ToolMessage, where: str) -> Message:
    blocks = [] if isinstance(message.content, str) else [inner(block) for block in _blocks(message, where)]
    shown = [block for block in blocks if isinstance(block, dict) and block.get("type") in MEDIA]
    said = [block for block in blocks if block not in shown]
    result = ToolResult(
        message.content if isinstance(message.content, str) else content_of(said),
        name=message.name or "",
        call_id=message.tool_call_id,
        is_error=message.status == "error",
    )
    media = [part for block in shown if (part := part_of(block, where)) is not None]
    return Message("tool", (result, *media))
