"""Gemma 4's chat format.

    <bos><|turn>system
    {<|think|>, line break}{text}{<|tool>declaration<tool|> ...}<turn|>
    <|turn>user
    {text}<turn|>
    <|turn>model
    {text}<turn|>
    ...

and within a turn of the model, before or after a text:

    <|channel>thought
    {reasoning, line break}<channel|>
    <|tool_call>call:NAME{arguments}<tool_call|> ... <|tool_response>response:NAME{result}<tool_response|> ...

Each text is trimmed, and thoughts are cut out of the model's own. Turns of the user in a row stay turns; those of the
model become one, with the results of its calls, as it has one from user to user. A later system message is a turn where
it stands; `developer` is another name for it. A last message of the assistant is gone on with, and so is its turn after
results. Reasoning is told again while the turn lasts: thoughts before the last user message are left out, as the model
was taught.

It is the publisher's template but for this: what the assistant said before its calls stays before them (the template
puts it after their results); a result that is an error is named so; and what a prompt has no sense for is refused (a
result without its call; calls without results at the end).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from doppler_core.text.chat.form import ChatFormat, Piece
from doppler_core.text.chat.gemma4_calls import call_pieces, response_pieces
from doppler_core.text.chat.gemma4_marks import (
    AROUND_THOUGHT,
    BOS,
    CALLS,
    CHANNEL,
    CHANNEL_END,
    ENDS,
    MARKS,
    THINK,
    THOUGHT,
    TOOL,
    TOOL_END,
    TOOL_RESPONSE,
    TURN,
    TURN_END,
    UNSAID,
)
from doppler_core.text.chat.gemma4_reply import Gemma4Reply
from doppler_core.text.chat.gemma4_tools import declaration
from doppler_core.text.chat.messages import Message, Reasoning, Text, Tool, ToolCall, ToolResult

_NO_THOUGHT: tuple[Piece, ...] = (CHANNEL, THOUGHT, CHANNEL_END)
_NAMES = {"system": "system", "developer": "system", "user": "user", "assistant": "model"}


@dataclass
class _Turn:
    """A turn on its way: of whom, its pieces, and whether it ends with calls that nobody answered."""

    name: str
    body: list[Piece] = field(default_factory=list)
    is_unanswered: bool = False


def gemma4(
    messages: Sequence[Message],
    tools: Sequence[Tool] = (),
    thinking: bool = False,
    *,
    empty_thought: bool = False,
) -> tuple[Piece, ...]:
    """The pieces of a conversation. InputError for a tool whose parameters are no JSON schema.

    thinking: ask for thoughts before each answer. empty_thought: without thinking, begin an answer with a thought that
    is empty, as the large models (26B, 31B) were taught and the small ones were not.
    """
    turns = _turns(messages)
    if (tools or thinking) and turns[0].name != "system":
        turns.insert(0, _Turn("system"))
    if thinking:
        turns[0].body[:0] = [THINK, "\n"]
    for tool in tools:
        turns[0].body += [TOOL, *declaration(tool), TOOL_END]
    if turns[-1].name != "model":
        turns.append(_Turn("model"))
    last = turns[-1]
    if messages[-1].role == "tool":
        last.body += [CHANNEL, THOUGHT] if thinking else []
    elif empty_thought and not thinking and all(isinstance(piece, str) for piece in last.body):
        last.body[:0] = _NO_THOUGHT
    pieces: list[Piece] = [BOS]
    for turn in turns[:-1]:
        pieces += [TURN, f"{turn.name}\n", *turn.body]
        pieces += [TOOL_RESPONSE] if turn.is_unanswered else [TURN_END, "\n"]
    return (*pieces, TURN, "model\n", *last.body)


def _turns(messages: Sequence[Message]) -> list[_Turn]:
    turns: list[_Turn] = []
    last_user = max((at for at, message in enumerate(messages) if message.role == "user"), default=-1)
    for index, message in enumerate(messages):
        goes_on = index == len(messages) - 1
        if message.role == "tool":
            for part in message.parts:
                turns[-1].body += response_pieces(part) if isinstance(part, ToolResult) else ()
            turns[-1].is_unanswered = False
            continue
        name = _NAMES[message.role]
        if name != "model" or not turns or turns[-1].name != "model" or turns[-1].is_unanswered:
            turns.append(_Turn(name))
        if name == "model":
            _add_said(turns[-1], message, index > last_user, goes_on)
        else:
            turns[-1].body.append(
                "".join(part.text.strip() for part in message.parts if isinstance(part, Text))
            )
    return turns


def _add_said(turn: _Turn, message: Message, replays: bool, goes_on: bool) -> None:
    """What the assistant said; as the end of a prompt it keeps the white space it ends with."""
    begun = False
    for part in message.parts:
        match part:
            case Text(text):
                said = _without_thoughts(text)
                turn.body.append(said if goes_on and begun else said.lstrip() if goes_on else said.strip())
                begun = True
            case Reasoning(text) if replays and text.strip():
                turn.body += [CHANNEL, f"{THOUGHT}{text}\n", CHANNEL_END]
            case ToolCall():
                turn.body += call_pieces(part)
                turn.is_unanswered = True


def _without_thoughts(text: str) -> str:
    """What stands outside of thoughts; one that is not closed goes to the end."""
    return "".join(said.split(CHANNEL.token)[0] for said in text.split(CHANNEL_END.token))


def gemma4_format(*, empty_thought: bool = False) -> ChatFormat:
    """The format of the small models, or with `empty_thought` that of the large ones."""
    return ChatFormat(
        "gemma4",
        partial(gemma4, empty_thought=empty_thought),
        MARKS,
        parser=Gemma4Reply,
        tools=True,
        reasoning=True,
        ends=ENDS,
        thought=AROUND_THOUGHT,
        calls=CALLS,
        unsaid=UNSAID,
    )


GEMMA4 = gemma4_format()
