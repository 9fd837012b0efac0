"""Calls and their results in Gemma 4's notation: takes parts of messages, gives pieces.

<|tool_call>call:NAME{key:value,..}<tool_call|>
<|tool_response>response:NAME{key:value,..}<tool_response|>
"""

from collections.abc import Mapping

from doppler_core.text.chat.form import Piece
from doppler_core.text.chat.gemma4_marks import TOOL_CALL, TOOL_CALL_END, TOOL_RESPONSE, TOOL_RESPONSE_END
from doppler_core.text.chat.gemma4_values import value_pieces
from doppler_core.text.chat.messages import ToolCall, ToolResult


def call_pieces(call: ToolCall) -> list[Piece]:
    """The pieces of a call that was made."""
    return [TOOL_CALL, f"call:{call.name}", *value_pieces(call.arguments), TOOL_CALL_END]


def response_pieces(result: ToolResult) -> list[Piece]:
    """The pieces of what a call gave: an object as it is, all else as `value`, or as `error`."""
    content = result.content
    if not isinstance(content, Mapping):
        content = {"error" if result.is_error else "value": content}
    return [TOOL_RESPONSE, f"response:{result.name}", *value_pieces(content), TOOL_RESPONSE_END]
