"""Gemma 3's chat format: user and model turns that alternate, and no other.

    <bos><start_of_turn>user
    {system text, blank line}{text}<end_of_turn>
    <start_of_turn>model
    {text}<end_of_turn>
    ...

Each text is trimmed, but for the system's. What the publisher's template refuses has a form here:
turns of one side in a row become one, a blank line between them; system text joins the user turn that follows it, or
makes one at the end; a conversation may begin with the model's turn. A last message of the assistant is gone on with.
Gemma 3 was not taught to call tools, nor to think: tools are refused, the calls and results of a conversation that was
had with another model are told in text, and its thoughts are left out.
"""

from collections.abc import Sequence

from doppler_core.text.chat.form import ChatFormat, Control, Piece
from doppler_core.text.chat.messages import Message, Text, Tool
from doppler_core.text.chat.plain import as_plain

_BEGIN, _OPEN, _CLOSE = Control("<bos>"), Control("<start_of_turn>"), Control("<end_of_turn>")
_BLANK_LINE = "\n\n"
# Of prompts alone: what begins a text and a turn, and what was seen.
UNSAID = (_BEGIN.token, _OPEN.token, "<start_of_image>", "<image_soft_token>", "<end_of_image>")


def gemma3(
    messages: Sequence[Message], tools: Sequence[Tool] = (), thinking: bool = False
) -> tuple[Piece, ...]:
    """The pieces of a conversation. tools, thinking: none."""
    turns = _turns(messages)
    if turns[-1][0] != "model":
        turns.append(("model", ""))
    pieces: list[Piece] = [_BEGIN]
    for role, text in turns[:-1]:
        pieces += [_OPEN, f"{role}\n{text}", _CLOSE, "\n"]
    role, text = turns[-1]
    return (*pieces, _OPEN, f"{role}\n{text}")


def _turns(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """Role and text of each turn, of two roles that alternate."""
    turns: list[tuple[str, str]] = []
    system: list[str] = []
    plain = as_plain(messages)
    for index, message in enumerate(plain):
        if message.role in ("system", "developer"):
            system += [message.text] if message.text.strip() else []
        elif message.role == "user":
            text = "".join(part.text.strip() for part in message.parts if isinstance(part, Text))
            _add(turns, "user", _BLANK_LINE.join([*system, text]))
            system = []
        else:
            goes_on = index == len(plain) - 1
            text = "".join(part.text.strip() for part in message.parts if isinstance(part, Text))
            _add(turns, "model", message.text.lstrip() if goes_on else text)
    if system or not turns:
        _add(turns, "user", _BLANK_LINE.join(system).strip())
    return turns


def _add(turns: list[tuple[str, str]], role: str, text: str) -> None:
    if turns and turns[-1][0] == role:
        turns[-1] = (role, turns[-1][1] + _BLANK_LINE + text)
    else:
        turns.append((role, text))


GEMMA3 = ChatFormat(
    "gemma3",
    gemma3,
    (*UNSAID, _CLOSE.token),
    ends=("<eos>", _CLOSE.token),
    unsaid=UNSAID,
)
