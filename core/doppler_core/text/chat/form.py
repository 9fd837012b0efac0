"""What a chat format is: messages in, pieces out, each a control token by its text or a text. It knows no ids."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from doppler_core.errors import InputError, UnsupportedModalityError
from doppler_core.text.chat.messages import Media, Message, ReplyPart, Tool
from doppler_core.text.chat.pairing import paired


@dataclass(frozen=True)
class Control:
    """A control token, by its text."""

    token: str


Piece = Control | str


class ReplyParser(Protocol):
    """Takes a reply as it comes, gives its parts as soon as they are sure.

    Text and reasoning come piece by piece, a call once it is whole. However the text is cut, the parts, joined, are
    the same.
    """

    def control(self, token: str) -> Sequence[ReplyPart]:
        """A control token came, by its text."""

    def text(self, text: str) -> Sequence[ReplyPart]:
        """Text came, which is text whatever it spells."""

    def finish(self, cut: bool = False) -> Sequence[ReplyPart]:
        """The reply has ended. cut: not by the model itself. A call that is still open comes as invalid."""


class Writer(Protocol):
    """Writes a conversation as a model was taught to read it: one that was checked, its results paired with calls."""

    def __call__(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), thinking: bool = False
    ) -> Sequence[Piece]:
        """The pieces of a prompt; see ChatFormat.render."""


class ParserMaker(Protocol):
    """Makes the parser of one reply."""

    def __call__(self, prompt: Sequence[Piece] = (), calls: bool = True) -> ReplyParser:
        """The parser of the reply to a prompt, which may end within a thought. calls: there is something to call; without,
        what looks like a call is text."""


@dataclass(frozen=True)
class ChatFormat:
    """How a model was taught to hold a conversation.

    marks: the format's control tokens. No text may become one, whatever the tokenizer thinks of them.
    parser: None where a reply is text and nothing else.
    tools: whether it has a form for tools that are offered. reasoning: whether it has one for thoughts.
    ends: the control tokens that end the model's turn; those that a tokenizer does not have end nothing.
    thought: the control tokens that open and close a thought. calls: those that calls are made of. unsaid: those of
    prompts alone, which no answer has a use for.
    """

    name: str
    write: Writer
    marks: tuple[str, ...] = ()
    parser: ParserMaker | None = None
    tools: bool = False
    reasoning: bool = False
    ends: tuple[str, ...] = ()
    thought: tuple[str, str] | None = None
    calls: tuple[str, ...] = ()
    unsaid: tuple[str, ...] = ()

    def render(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), thinking: bool = False
    ) -> Sequence[Piece]:
        """The pieces of a prompt that ends where the model has to go on: in a turn of its own, or in the last message
        if that is the assistant's.

        tools: what is offered. thinking: ask for thoughts before the answer.
        Raises InputError for what the format has no form for.
        """
        if tools and not self.tools:
            raise InputError(
                f"tools: the chat format {self.name} has no form for them: this model was not taught to call tools; ask "
                "without, or take one that was (Gemma 4)"
            )
        if thinking and not self.reasoning:
            raise InputError(
                f"thinking: the chat format {self.name} has no form for thoughts; ask without thinking"
            )
        for index, message in enumerate(messages):
            for part in message.parts:
                if isinstance(part, Media):
                    raise UnsupportedModalityError(
                        f"message {index}: {part.kind}: this version gives models text alone; take the part out"
                    )
        return self.write(paired(messages), tools, thinking)

    def forbidden(self, tools: bool) -> tuple[str, ...]:
        """The control tokens that an answer can't hold. tools: whether any are offered: nothing else can be called."""
        return self.unsaid if tools else (*self.unsaid, *self.calls)
