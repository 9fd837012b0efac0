"""What a reply has come to: parts in, what of them can be told out, up to a stop string. It knows no tokens."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from doppler_core.engine.stopping import StopStrings
from doppler_core.text.chat import InvalidToolCall, Reasoning, ReplyPart, Text, ToolCall


@dataclass(frozen=True)
class Said:
    """Some of an answer, or all of it. stop: the stop string that ended it."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall | InvalidToolCall, ...] = ()
    stop: str | None = None

    @property
    def empty(self) -> bool:
        """Whether there is nothing to tell."""
        return not (self.text or self.reasoning or self.calls)


class Answer:
    """Stop strings are looked for in the text of the answer, not in thoughts and calls, and not across them."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = StopStrings(stops)
        self._told: list[Said] = []

    def take(self, parts: Iterable[ReplyPart], last: bool = False) -> Said:
        """What can be told now. last: nothing follows, so that nothing is held back."""
        texts: list[str] = []
        thoughts: list[str] = []
        calls: list[ToolCall | InvalidToolCall] = []
        stop: str | None = None
        for part in parts:
            if isinstance(part, Text):
                text, stop = self._stops.push(part.text)
                texts.append(text)
                if stop is not None:
                    break
                continue
            texts.append(self._stops.finish())
            if isinstance(part, Reasoning):
                thoughts.append(part.text)
            else:
                calls.append(part)
        if last and stop is None:
            texts.append(self._stops.finish())
        said = Said("".join(texts), "".join(thoughts), tuple(calls), stop)
        if not said.empty:
            self._told.append(said)
        return said

    def whole(self) -> Said:
        """All that was told."""
        return Said(
            "".join(one.text for one in self._told),
            "".join(one.reasoning for one in self._told),
            tuple(call for one in self._told for call in one.calls),
        )

    def calls(self) -> bool:
        """Whether a whole call was told."""
        return any(isinstance(call, ToolCall) for one in self._told for call in one.calls)
