"""Which chat format a model has: the one its manifest names, else its checkpoint's own template, else none."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from doppler_core.errors import InputError, NoChatFormatError
from doppler_core.text.chat.form import ChatFormat, Piece
from doppler_core.text.chat.gemma3 import GEMMA3
from doppler_core.text.chat.gemma4 import GEMMA4
from doppler_core.text.chat.messages import Message, Tool
from doppler_core.text.chat.template import find_template, template_format
from doppler_core.text.tokenizer import Tokenizer

_BY_NAME = {chat_format.name: chat_format for chat_format in (GEMMA3, GEMMA4)}
_DECLARED = {"gemma": GEMMA3, "gemma4": GEMMA4}  # as `inference.chatTemplate.type` calls them


def choose_format(declared: str | None, files: Mapping[str, Path], tokenizer: Tokenizer) -> ChatFormat:
    """The chat format of a model.

    declared: `inference.chatTemplate.type`, None where it is null or not enabled. files: the checkpoint's tokenizer
    files, by name. A model without a format opens like any other: it is the conversation that is refused.
    """
    if declared in _DECLARED:
        return _DECLARED[declared]
    found = find_template(files)
    # A tokenizer that was converted carelessly may not call them special.
    known = {mark for mark in GEMMA4.marks if tokenizer.token_id(mark) is not None}
    return _NONE if found is None else template_format(*found, tokenizer.control | known)


def format_named(name: str) -> ChatFormat:
    """A built-in chat format; InputError lists them."""
    if name not in _BY_NAME:
        raise InputError(
            f"chat_format={name!r}: expected one of {', '.join(_BY_NAME)}, or None for the model's own"
        )
    return _BY_NAME[name]


class _NoFormat(ChatFormat):
    """A base model's: every conversation is refused."""

    def render(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), thinking: bool = False
    ) -> Sequence[Piece]:
        raise NoChatFormatError(
            "this model has no chat format: it is a base model, which goes on with a text; generate from a text, or "
            f"give chat_format= one of {', '.join(_BY_NAME)} if it was taught one",
            formats=tuple(_BY_NAME),
        )


_NONE = _NoFormat("none", lambda messages, tools=(), thinking=False: ())
