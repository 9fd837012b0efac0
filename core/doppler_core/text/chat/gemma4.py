"""Gemma 4's chat format, of conversations in text.

    <bos><|turn>system
    {<|think|>, line break}{text}<turn|>
    <|turn>user
    {text}<turn|>
    <|turn>model
    {text}<turn|>
    ...

Each text is trimmed, and thoughts are cut out of the model's own. Turns of the user in a row stay turns; those of the
model become one, as it has one from user to user. A later system message is a turn where it stands. A last message of
the assistant is gone on with.
"""

from collections.abc import Sequence
from functools import partial

from doppler_core.errors import InputError
from doppler_core.text.chat.form import ChatFormat, Control, Piece
from doppler_core.text.chat.messages import Message, Text, Tool

_BEGIN, _OPEN, _CLOSE = Control("<bos>"), Control("<|turn>"), Control("<turn|>")
_THINK, _OPEN_CHANNEL, _CLOSE_CHANNEL = Control("<|think|>"), Control("<|channel>"), Control("<channel|>")
_NO_THOUGHT: tuple[Piece, ...] = (_OPEN_CHANNEL, "thought\n", _CLOSE_CHANNEL)
# All that the format may hold, also what is for later: no text may become a call or an image either.
_MARKS = (
    *(mark.token for mark in (_BEGIN, _OPEN, _CLOSE, _THINK, _OPEN_CHANNEL, _CLOSE_CHANNEL)),
    *("<eos>", "<|tool>", "<tool|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>"),
    *('<|"|>', "<|image>", "<|image|>", "<image|>", "<|audio>", "<|audio|>", "<audio|>", "<|video|>"),
)
_NAMES = {"system": "system", "developer": "system", "user": "user", "assistant": "model"}

Turn = tuple[str, list[Piece]]


def gemma4(
    messages: Sequence[Message],
    tools: Sequence[Tool] = (),
    thinking: bool = False,
    *,
    empty_thought: bool = False,
) -> tuple[Piece, ...]:
    """The pieces of a conversation. InputError for tool turns.

    thinking: ask for thoughts before each answer. empty_thought: without thinking, begin the answer with a thought
    that is empty, as the large models (26B, 31B) were taught and the small ones were not.
    """
    turns = _turns(messages)
    if thinking:
        if turns[0][0] != "system":
            turns.insert(0, ("system", []))
        turns[0][1][:0] = [_THINK, "\n"]
    if turns[-1][0] != "model":
        turns.append(("model", []))
    if empty_thought and not thinking:
        turns[-1][1][:0] = _NO_THOUGHT
    pieces: list[Piece] = [_BEGIN]
    for name, body in turns[:-1]:
        pieces += [_OPEN, f"{name}\n", *body, _CLOSE, "\n"]
    return (*pieces, _OPEN, "model\n", *turns[-1][1])


def _turns(messages: Sequence[Message]) -> list[Turn]:
    """Name and body of each turn; messages of the model in a row are one."""
    turns: list[Turn] = []
    for index, message in enumerate(messages):
        name = _NAMES.get(message.role)
        if name is None:
            raise InputError(
                f"message {index}: a tool's result without its call; this version makes no calls"
            )
        texts = [part.text for part in message.parts if isinstance(part, Text)]
        if name == "model" and index == len(messages) - 1:
            body = _without_thoughts(message.text).lstrip()
        elif name == "model":
            body = "".join(_without_thoughts(text).strip() for text in texts)
        else:
            body = "".join(text.strip() for text in texts)
        if name == "model" and turns and turns[-1][0] == "model":
            turns[-1][1].append(body)
        else:
            turns.append((name, [body]))
    return turns


def _without_thoughts(text: str) -> str:
    """What stands outside of thoughts; one that is not closed goes to the end."""
    channel, end = _OPEN_CHANNEL.token, _CLOSE_CHANNEL.token
    return "".join(said.split(channel)[0] for said in text.split(end))


def gemma4_format(*, empty_thought: bool = False) -> ChatFormat:
    """The format of the small models, or with `empty_thought` that of the large ones."""
    return ChatFormat("gemma4", partial(gemma4, empty_thought=empty_thought), _MARKS, reasoning=True)


GEMMA4 = gemma4_format()
