"""Conversations: one form for messages, the chat formats that render it, and the ids a model runs."""

from doppler_core.text.chat.choice import choose_format, format_named
from doppler_core.text.chat.form import ChatFormat, Control, Piece
from doppler_core.text.chat.messages import Message, Role, Text, read_messages
from doppler_core.text.chat.render import chat_ids, encode_pieces

__all__ = [
    "ChatFormat",
    "Control",
    "Message",
    "Piece",
    "Role",
    "Text",
    "chat_ids",
    "choose_format",
    "encode_pieces",
    "format_named",
    "read_messages",
]
