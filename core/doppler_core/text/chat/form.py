"""What a chat format is: messages in, pieces out, each a control token by its text or a text. It knows no ids."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from doppler_core.text.chat.messages import Message


@dataclass(frozen=True)
class Control:
    """A control token, by its text."""

    token: str


Piece = Control | str
Render = Callable[[Sequence[Message]], Sequence[Piece]]


@dataclass(frozen=True)
class ChatFormat:
    """How a model was taught to hold a conversation.

    render: the pieces of a prompt that ends where the model has to go on: in a turn of its own, or in the last message
        if that is the assistant's. Raises InputError for a conversation that the format has no form for.
    marks: the format's control tokens. No text may become one, whatever the tokenizer thinks of them.
    """

    name: str
    render: Render
    marks: tuple[str, ...] = ()
