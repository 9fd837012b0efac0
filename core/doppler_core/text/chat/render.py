"""Pieces to ids: control tokens are found by name in the tokenizer, texts never become any.

Texts that meet are encoded as one, so that a harmless conversation gets the ids that the publisher's template gives.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

from doppler_core.errors import InputError
from doppler_core.text.chat.form import ChatFormat, Control, Piece
from doppler_core.text.chat.messages import Message, Tool
from doppler_core.text.chat.reading import read_messages
from doppler_core.text.chat.tools import read_tools
from doppler_core.text.tokenizer import Tokenizer


def chat_ids(
    messages: Iterable[Message | Mapping[str, Any]],
    chat_format: ChatFormat,
    tokenizer: Tokenizer,
    tools: Iterable[Tool | Mapping[str, Any]] = (),
    thinking: bool = False,
) -> list[int]:
    """The ids of a conversation, begin token included, up to where the model goes on.

    tools: what the model may call. thinking: ask for thoughts before the answer.
    Raises InputError for what is no conversation, and for what the format or the tokenizer has no form for.
    """
    pieces = chat_format.render(read_messages(messages), read_tools(tools), thinking)
    return encode_pieces(pieces, tokenizer, chat_format)


def encode_pieces(pieces: Sequence[Piece], tokenizer: Tokenizer, chat_format: ChatFormat) -> list[int]:
    """The ids of rendered pieces."""
    marks = control_ids(chat_format, tokenizer)
    ids: list[int] = []
    for is_text, run in groupby(pieces, lambda piece: isinstance(piece, str)):
        if is_text:
            ids += _text_ids("".join(map(str, run)), tokenizer, marks)
        else:
            ids += [_control_id(piece, tokenizer, chat_format) for piece in run if isinstance(piece, Control)]
    return ids


def control_ids(chat_format: ChatFormat, tokenizer: Tokenizer) -> dict[int, str]:
    """The format's control tokens that the tokenizer has, by their ids: what a ReplyParser is told of by `control`."""
    return {number: mark for mark in chat_format.marks if (number := tokenizer.token_id(mark)) is not None}


def _control_id(control: Control, tokenizer: Tokenizer, chat_format: ChatFormat) -> int:
    found = tokenizer.token_id(control.token)
    if found is None:
        raise InputError(
            f"{tokenizer.path}: there is no token {control.token}, and the chat format {chat_format.name} needs it: this "
            "model was not made for that format"
        )
    return found


def _text_ids(text: str, tokenizer: Tokenizer, marks: Mapping[int, str]) -> list[int]:
    """The ids of a text. The tokenizer does not read the marks that it knows for special; a text that spells another
    one is cut within it, and its parts are encoded alone."""
    ids = tokenizer.encode(text, bare=True)
    if marks.keys().isdisjoint(ids):
        return ids
    inside = re.compile("|".join(f"{re.escape(mark[0])}(?={re.escape(mark[1:])})" for mark in marks.values()))
    cuts = [0, *(match.end() for match in inside.finditer(text)), len(text)]
    ids = [number for begin, end in pairwise(cuts) for number in tokenizer.encode(text[begin:end], bare=True)]
    if not marks.keys().isdisjoint(ids):
        raise InputError(
            f"{tokenizer.path}: a message becomes a control token of the chat format: take it out"
        )
    return ids
