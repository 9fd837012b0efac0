"""What a model can do with its chat format: found out by writing a conversation with its tokenizer, as requests will.

A checkpoint's own template is not run for that: it is a stranger's program, which may take seconds, and what it says
of itself is checked by the requests that need it.
"""

from collections.abc import Sequence
from dataclasses import replace

from doppler_core.engine.request import Capabilities
from doppler_core.errors import DopplerError
from doppler_core.text.chat import ChatFormat, Message, Text, Tool, ToolCall, ToolResult, encode_pieces
from doppler_core.text.chat.template import TEMPLATE
from doppler_core.text.tokenizer import Tokenizer

_ASKED = Message("user", (Text("?"),))
_TOOL = Tool("look", "", {"type": "object", "properties": {}})
_CALLED = (
    _ASKED,
    Message("assistant", (ToolCall(_TOOL.name, {}, "1"),)),
    Message("tool", (ToolResult("", _TOOL.name, "1"),)),
)


def with_chat(own: Capabilities, chat_format: ChatFormat, tokenizer: Tokenizer) -> Capabilities:
    """`own`, of a model that generates, and what its chat format adds."""
    if chat_format.name == TEMPLATE:
        return replace(own, chat=True, tools=chat_format.tools, reasoning=chat_format.reasoning)

    def writes(messages: Sequence[Message], tools: Sequence[Tool] = (), thinking: bool = False) -> bool:
        try:
            encode_pieces(chat_format.render(messages, tools, thinking), tokenizer, chat_format)
        except DopplerError:
            return False
        return True

    return replace(
        own,
        chat=writes((_ASKED,)),
        tools=chat_format.tools and chat_format.parser is not None and writes(_CALLED, (_TOOL,)),
        reasoning=chat_format.reasoning and writes((_ASKED,), thinking=True),
    )
