"""Conversations: one form for messages, the chat formats that render it, the ids a model runs, and what it replies."""

from doppler_core.text.chat.choice import choose_format, format_named
from doppler_core.text.chat.form import ChatFormat, Control, Piece, ReplyParser
from doppler_core.text.chat.messages import (
    InvalidToolCall,
    Media,
    Message,
    Part,
    Reasoning,
    ReplyPart,
    Role,
    Text,
    Tool,
    ToolCall,
    ToolResult,
)
from doppler_core.text.chat.reading import read_messages
from doppler_core.text.chat.render import chat_ids, control_ids, encode_pieces
from doppler_core.text.chat.tools import read_tools

__all__ = [
    "ChatFormat",
    "Control",
    "InvalidToolCall",
    "Media",
    "Message",
    "Part",
    "Piece",
    "Reasoning",
    "ReplyParser",
    "ReplyPart",
    "Role",
    "Text",
    "Tool",
    "ToolCall",
    "ToolResult",
    "chat_ids",
    "choose_format",
    "control_ids",
    "encode_pieces",
    "format_named",
    "read_messages",
    "read_tools",
]
