"""LlamaIndex's messages as core's: takes ChatMessages, gives Messages, and changes nothing of what it was given.

It knows no model: whether one has turns for a role, or takes images, is for the engine to say.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from llama_index.core.base.llms.types import (
    AudioBlock,
    BaseContentBlock,
    CachePoint,
    ChatMessage,
    CitableBlock,
    CitationBlock,
    DocumentBlock,
    ImageBlock,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    VideoBlock,
)

from doppler_core.errors import InputError, UnsupportedModalityError
from doppler_core.text.chat import Media, Message, Reasoning, Role, Text, ToolCall, ToolResult, read_messages
from doppler_core.text.chat.messages import MediaKind, Part

_ROLES: dict[MessageRole, Role] = {
    MessageRole.SYSTEM: "system",
    MessageRole.DEVELOPER: "developer",
    MessageRole.USER: "user",
    MessageRole.ASSISTANT: "assistant",
    MessageRole.CHATBOT: "assistant",
    MessageRole.MODEL: "assistant",
    MessageRole.TOOL: "tool",
    MessageRole.FUNCTION: "tool",
}
_MEDIA: dict[type[BaseContentBlock], MediaKind] = {
    ImageBlock: "image",
    AudioBlock: "audio",
    VideoBlock: "video",
}


def read_chat(messages: Sequence[ChatMessage]) -> tuple[Message, ...]:
    """The conversation, each tool's result with the name of the tool whose call had its id.

    Text blocks that follow each other are one text, a line break between them, as `ChatMessage.content` has it. Raises
    InputError naming the message and what it holds that has no form here: nothing is left out in silence but cache
    points, which say nothing to a model.
    """
    names: dict[str, str] = {}
    found = []
    for index, message in enumerate(messages):
        if not isinstance(message, ChatMessage):
            raise InputError(f"message {index}: expected a ChatMessage, got {type(message).__name__}")
        role, where = _ROLES[message.role], f"message {index}"
        parts = _parts(message.blocks, where)
        if role == "tool":
            parts = (_result(message, parts, names, where),)
        elif role == "assistant":
            parts = _with_foreign_calls(message, parts)
            names |= {part.id: part.name for part in parts if isinstance(part, ToolCall)}
        found.append(Message(role, parts))
    return tuple(found)


def _parts(blocks: Iterable[BaseContentBlock], where: str) -> tuple[Part, ...]:
    found: list[Part] = []
    for number, block in enumerate(blocks):
        for part in _read(block, f"{where}, block {number}"):
            if isinstance(part, Text) and found and isinstance(found[-1], Text):
                found[-1] = Text(f"{found[-1].text}\n{part.text}")
            else:
                found.append(part)
    return tuple(found)


def _read(block: BaseContentBlock, where: str) -> tuple[Part, ...]:
    match block:
        case TextBlock():
            return (Text(block.text),)
        case ThinkingBlock():
            return (Reasoning(block.content),) if block.content else ()
        case ToolCallBlock():
            return _call(block.tool_name, block.tool_kwargs, block.tool_call_id)
        case CitableBlock():
            return _parts([TextBlock(text=f"{block.title} ({block.source}):"), *block.content], where)
        case CitationBlock():
            return _parts([block.cited_content], where)
        case DocumentBlock():
            return (Text(_document(block, where)),)
        case CachePoint():
            return ()
    kind = _MEDIA.get(type(block))
    if kind is None:
        raise InputError(f"{where}: {type(block).__name__} has no form that a model reads: take it out")
    return (
        Media(kind),
    )  # its place alone: which models read one, the engine knows, and nothing is fetched for others


def _document(block: DocumentBlock, where: str) -> str:
    """The text of a document that is text, its title above it."""
    kind = block.document_mimetype or "unknown"
    if block.url is not None:
        raise InputError(
            f"{where}: a document at a URL, and nothing is fetched here: give its data or its path"
        )
    if not kind.startswith("text/"):
        raise UnsupportedModalityError(
            f"{where}: a document of type {kind}, and this model reads text: give its text in a TextBlock"
        )
    text = block.resolve_document().read().decode("utf-8", "replace")
    return f"{block.title}:\n{text}"


def _call(name: str, arguments: Any, number: str | None) -> tuple[Part, ...]:
    # Arguments may be JSON in a text: what core reads, and what it says of broken ones, serves both frameworks.
    call = {"id": number or "", "type": "function", "function": {"name": name, "arguments": arguments}}
    return read_messages([{"role": "assistant", "content": None, "tool_calls": [call]}])[0].parts


def _with_foreign_calls(message: ChatMessage, parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The calls that other integrations, and old memories, keep beside the blocks."""
    calls = message.additional_kwargs.get("tool_calls")
    if not calls or any(isinstance(part, ToolCall) for part in parts):
        return parts
    if isinstance(calls, Sequence) and not isinstance(calls, str):
        calls = [call.model_dump() if hasattr(call, "model_dump") else call for call in calls]
    return (*parts, *read_messages([{"role": "assistant", "content": None, "tool_calls": calls}])[0].parts)


def _result(message: ChatMessage, parts: tuple[Part, ...], names: dict[str, str], where: str) -> ToolResult:
    """What a tool gave. FunctionAgent says whose result it is by the call's id alone."""
    said = message.additional_kwargs
    number = str(said.get("tool_call_id") or "")
    name = names.get(number) or str(said.get("name") or said.get("tool_name") or "")
    if not all(isinstance(part, Text) for part in parts):
        raise InputError(f"{where}: expected a tool's result as text, got {', '.join(map(_kind, parts))}")
    text = "\n".join(part.text for part in parts if isinstance(part, Text))
    return ToolResult(text, name, number)


def _kind(part: Part) -> str:
    return type(part).__name__
