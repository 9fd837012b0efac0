"""What a request's prompt is to a model: its ids, and how the reply to it is read. It knows no device.

A text gets the begin token, ids are taken as they are, a conversation is written in a chat format.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from doppler_core.engine.generate_check import check_generate_request
from doppler_core.engine.prompt_room import PromptRoom
from doppler_core.engine.reply_reader import ReplyReader
from doppler_core.engine.request import GenerateRequest
from doppler_core.errors import InputError
from doppler_core.text.chat import (
    ChatFormat,
    Message,
    Piece,
    Tool,
    control_ids,
    encode_pieces,
    format_named,
    read_messages,
    read_tools,
)
from doppler_core.text.token_count import HUGE
from doppler_core.text.tokenizer import Tokenizer, well_formed

_BEGIN = "<bos>"


@dataclass(frozen=True)
class Prompt:
    """ids: of the prompt. reader: of the reply.

    Of a conversation also its chat format, the pieces that this made of it, the tools that are offered, and the control
    tokens that the reply can't hold.
    """

    ids: Sequence[int]
    reader: ReplyReader
    chat_format: ChatFormat | None = None
    pieces: Sequence[Piece] = ()
    tools: tuple[Tool, ...] = ()
    forbidden: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Prompts:
    """How a model takes prompts. own: its own chat format."""

    tokenizer: Tokenizer
    own: ChatFormat

    @property
    def begin(self) -> int | None:
        """The token that every text begins with."""
        return self.tokenizer.token_id(_BEGIN)

    def of(self, request: GenerateRequest, room: PromptRoom | None = None) -> Prompt:
        """The prompt of a request that has been checked. InputError for what its chat format has no form for.

        room: what there is for it; TextTooLongError, before a text is encoded, where that is sure to be too little.
        """
        prompt = request.prompt
        if is_conversation(prompt):
            return self._of_conversation(prompt, request, room)
        for name in ("tools", "thinking"):
            if getattr(request, name):
                raise InputError(f"{name}: the prompt is no conversation: give messages, or leave it out")
        if not isinstance(prompt, str):
            return Prompt(list(map(int, prompt)), ReplyReader(self.tokenizer))  # type: ignore[arg-type]
        text = well_formed(prompt)
        self._check_room([text], request, room)
        return Prompt(self._text_ids(text), ReplyReader(self.tokenizer))

    def count(self, prompt: Any, prompt_name: str | None = None, **fields: Any) -> int:
        """Tokens of a text or of a conversation, begin token included, as a request with these fields has them."""
        if prompt_name is not None:
            raise InputError(f"prompt_name={prompt_name!r}: a generating model has no named prompts")
        request = GenerateRequest(prompt, **fields)
        check_generate_request(request, self.tokenizer.vocabulary)
        return len(self.of(request).ids)

    def ids_of(self, tokens: Iterable[str]) -> set[int]:
        """The ids of a chat format's tokens, as far as the tokenizer has them."""
        return {number for token in tokens if (number := self.tokenizer.token_id(token)) is not None}

    def _of_conversation(
        self,
        messages: Iterable[Message | Mapping[str, Any]],
        request: GenerateRequest,
        room: PromptRoom | None,
    ) -> Prompt:
        chat_format = self.own if request.chat_format is None else format_named(request.chat_format)
        tools = read_tools(request.tools)
        pieces = chat_format.render(read_messages(messages), tools, request.thinking)
        self._check_room(pieces, request, room)
        parser = None if chat_format.parser is None else chat_format.parser(pieces, bool(tools))
        return Prompt(
            encode_pieces(pieces, self.tokenizer, chat_format),
            ReplyReader(self.tokenizer, parser, control_ids(chat_format, self.tokenizer)),
            chat_format,
            pieces,
            tools,
            frozenset(self.ids_of(chat_format.forbidden(bool(tools)))),
        )

    def _check_room(self, pieces: Sequence[Piece], request: GenerateRequest, room: PromptRoom | None) -> None:
        """Texts that meet are encoded as one, so that their characters are counted together."""
        characters = sum(len(piece) for piece in pieces if isinstance(piece, str))
        if room is not None and characters > HUGE:
            room.check_least(self.tokenizer.least_tokens(characters), request.overflow)

    def _text_ids(self, text: str) -> list[int]:
        """The begin token is the model's, whatever the tokenizer's file does: no Gemma makes sense without it."""
        ids = self.tokenizer.encode(text, bare=True)
        return ids if self.begin is None else [self.begin, *ids]


def is_conversation(prompt: object) -> TypeGuard[Sequence[Message | Mapping[str, Any]]]:
    """Whether a prompt that has been checked is messages."""
    return isinstance(prompt, Sequence) and len(prompt) > 0 and isinstance(prompt[0], Message | Mapping)
