"""The one form of a conversation, whoever wrote it: messages of parts, tools, and what a model's reply is made of.

Plain data, checked by `read_messages` and `read_tools`. It knows no chat format and no framework.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["system", "developer", "user", "assistant", "tool"]
MediaKind = Literal["image", "audio", "video"]


@dataclass(frozen=True)
class Text:
    """A part that is text."""

    text: str


@dataclass(frozen=True)
class Reasoning:
    """What the assistant thought before it went on."""

    text: str


@dataclass(frozen=True)
class ToolCall:
    """A call that the assistant made, whole and readable.

    arguments: JSON values by parameter name. id: what its result refers to; "" in a conversation without ids.
    """

    name: str
    arguments: Mapping[str, Any]
    id: str = ""


@dataclass(frozen=True)
class InvalidToolCall:
    """A call of a reply that was cut off, or that can't be read. It is never run, and never a part of a prompt.

    name: None where not even that can be read. text: what the model wrote, control tokens by their texts.
    """

    name: str | None
    text: str
    error: str
    id: str = ""


@dataclass(frozen=True)
class ToolResult:
    """What a call gave: a text or JSON values.

    name, call_id: of the call; either may be "", as long as it can be told which one is meant.
    """

    content: str | Mapping[str, Any] | list[Any]
    name: str = ""
    call_id: str = ""
    is_error: bool = False


@dataclass(frozen=True)
class Media:
    """An image, a sound or a video. data: None where only its place in the conversation is known."""

    kind: MediaKind
    data: bytes | None = None
    media_type: str = ""


Part = Text | Reasoning | ToolCall | ToolResult | Media
ReplyPart = Text | Reasoning | ToolCall | InvalidToolCall


@dataclass(frozen=True)
class Message:
    """One turn, or part of one.

    name: of who speaks, where several do; no chat format here has a place for it.
    """

    role: Role
    parts: tuple[Part, ...] = ()
    name: str | None = None

    @property
    def text(self) -> str:
        """The parts that are text, one after the other, as they are."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))


@dataclass(frozen=True)
class Tool:
    """A tool that is offered. parameters: the JSON schema of its arguments, an object; {} where it takes none."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
