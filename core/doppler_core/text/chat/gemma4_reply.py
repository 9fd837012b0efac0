"""Reads what Gemma 4 replies, as it comes: takes control tokens and text, gives thoughts, text and calls.

Only a control token opens or closes anything: the same signs spelled in text are text. A call comes when it is closed;
one that never is, or that can't be read, or that was made within a thought, comes as invalid. Where there is nothing to
call, there are no calls: what one would be made of is text.
"""

import secrets
from collections.abc import Sequence

from doppler_core.text.chat.form import Control, Piece
from doppler_core.text.chat.gemma4_call_reader import Unreadable, call_name, read_call
from doppler_core.text.chat.gemma4_marks import CHANNEL, CHANNEL_END, ENDS, THOUGHT, TOOL_CALL, TOOL_CALL_END
from doppler_core.text.chat.messages import InvalidToolCall, Reasoning, ReplyPart, Text, ToolCall


class Gemma4Reply:
    """The parser of one reply.

    The text is as the model writes it, but for white space alone beside thoughts and calls. A thought is without its
    `thought` line, and without white space around it.
    """

    def __init__(self, prompt: Sequence[Piece] = (), calls: bool = True) -> None:
        """prompt: where it ends within a thought, the reply goes on with that. calls: there is something to call."""
        self._calls = calls
        controls = [piece for piece in prompt if isinstance(piece, Control)]
        opened = controls[-1:] == [CHANNEL]
        self._part: _Answer | _Thought | _Call = _Thought(begun=True) if opened else _Answer(is_first=True)

    def control(self, token: str) -> list[ReplyPart]:
        """A control token came; one that means nothing where it stands is left out."""
        control, part = Control(token), self._part
        if control == TOOL_CALL and self._calls:
            return self._go_on_with(_Call(within_thought=isinstance(part, _Thought)))
        if control == CHANNEL:
            return self._go_on_with(_Thought())
        if control == TOOL_CALL_END and isinstance(part, _Call):
            self._part = _Answer()
            return [part.closed()]
        if isinstance(part, _Call) and token not in ENDS:
            part.add(control)
        elif not isinstance(part, _Answer) and (token in ENDS or control == CHANNEL_END):
            return self._go_on_with(_Answer())
        return []

    def text(self, text: str) -> list[ReplyPart]:
        """Text came."""
        return self._part.text(text)

    def finish(self, cut: bool = False) -> list[ReplyPart]:
        """The reply has ended."""
        part = self._part
        if isinstance(part, _Answer):
            return part.rest()
        return part.left("the reply was cut off within it" if cut else "the reply ended within it")

    def _go_on_with(self, part: "_Answer | _Thought | _Call") -> list[ReplyPart]:
        left = self._part.left("it was not closed")
        self._part = part
        return left


class _Answer:
    """Text. What it begins with stays, if it is the first of the reply: it may go on with a text."""

    def __init__(self, is_first: bool = False) -> None:
        self._is_first = is_first
        self._held: str | None = ""

    def text(self, text: str) -> list[ReplyPart]:
        if self._held is not None:
            text = self._held + text
            if not text.strip():
                self._held = text
                return []
            self._held = None
            text = text if self._is_first else text.lstrip()
        return [Text(text)] if text else []

    def rest(self) -> list[ReplyPart]:
        return [Text(self._held)] if self._held and self._is_first else []

    def left(self, _: str) -> list[ReplyPart]:
        return []


class _Thought:
    """Reasoning. begun: its `thought` line is in the prompt."""

    def __init__(self, begun: bool = False) -> None:
        self._in_head, self._begun = not begun, False
        self._held = ""

    def text(self, text: str) -> list[ReplyPart]:
        text = self._held + text
        self._held = ""
        if self._in_head:
            if len(text) < len(THOUGHT) and THOUGHT.startswith(text):
                self._held = text
                return []
            self._in_head, text = False, text.removeprefix(THOUGHT)
        said = text.rstrip()
        self._held = text[len(said) :] if said or self._begun else ""
        if not self._begun:
            said = said.lstrip()
        self._begun = self._begun or bool(said)
        return [Reasoning(said)] if said else []

    def left(self, _: str) -> list[ReplyPart]:
        return []


class _Call:
    """A call on its way. within_thought: it is none then, however well it reads."""

    def __init__(self, within_thought: bool) -> None:
        self._within_thought = within_thought
        self._pieces: list[Piece] = []

    def add(self, control: Control) -> None:
        self._pieces.append(control)

    def text(self, text: str) -> list[ReplyPart]:
        self._pieces.append(text)
        return []

    def closed(self) -> ToolCall | InvalidToolCall:
        if self._within_thought:
            return self._invalid("it was made within a thought")
        try:
            name, arguments = read_call(self._pieces)
        except Unreadable as error:
            return self._invalid(str(error))
        return ToolCall(name, arguments, _new_id())

    def left(self, why: str) -> list[ReplyPart]:
        return [self._invalid(why)]

    def _invalid(self, error: str) -> InvalidToolCall:
        written = "".join(piece if isinstance(piece, str) else piece.token for piece in self._pieces)
        return InvalidToolCall(call_name(self._pieces), written, error, _new_id())


def _new_id() -> str:
    return f"call_{secrets.token_hex(12)}"
