"""One generation that comes a canvas at a time: drafts on the way, then all of a canvas's tokens at once.

Takes what the denoising steps leave; gives deltas and a result, as every generation does. It knows no device.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from doppler_core.engine.canvases import CanvasChoice, Sketch, Words
from doppler_core.engine.choice import Choice
from doppler_core.engine.generation import Ending, GenerateJob
from doppler_core.engine.reply_reader import ReplyReader
from doppler_core.engine.request import Delta, Usage
from doppler_core.plan.canvas import LIKELIEST
from doppler_core.text.detokenizer import Detokenizer
from doppler_core.text.tokenizer import Tokenizer


class CanvasJob(GenerateJob):
    """The answer to one request.

    canvases: how their tokens are chosen. spelling: of drafts; None = nobody wants to see any. sketch: the canvas under
    way, if one is.
    """

    def __init__(
        self,
        ids: Sequence[int],
        canvases: CanvasChoice,
        ending: Ending,
        reader: ReplyReader,
        submitted: float,
        spelling: Tokenizer | None = None,
    ) -> None:
        super().__init__(ids, Choice(), ending, None, reader, submitted)
        self.canvases = canvases
        self.sketch: Sketch | None = None
        self._spelling = spelling
        self._begun = 0
        self._steps = 0
        self._worth = 0  # tokens of the answer, its end among them, that are no padding

    @property
    def shows_drafts(self) -> bool:
        """Whether it wants to see its canvas after each step."""
        return self._spelling is not None

    def begin(self, position: int, room: int) -> Sketch:
        """A canvas begins at that position, with as many tokens as it has room for."""
        self.sketch = Sketch(
            self.canvases, self._begun, position, min(self.canvases.settings.canvas_length, room)
        )
        self._begun += 1
        return self.sketch

    def note(self, progress: Words) -> bool:
        """The canvas took a step: whether it is done."""
        assert self.sketch is not None
        self._steps += 1
        return self.sketch.note(progress)

    def show(self, lines: Words, done: bool) -> None:
        """The canvas stands so, lines of the state `canvas`, [length, 4]."""
        assert self.sketch is not None
        assert self._spelling is not None
        text = _spelled(self._until_end(lines[:, LIKELIEST].tolist()), self._spelling)
        self._fresh.append(Delta("", canvas=self.sketch.drawn(lines, text, done)))

    def settle(self, lines: Words) -> list[int]:
        """The canvas is done: its likeliest tokens are those of the answer, up to the end of that. All of them."""
        self.sketch = None
        tokens: list[int] = lines[:, LIKELIEST].tolist()
        before, self._fresh = self._fresh, []
        for token in tokens:
            if self.done():
                break
            self._worth += token != self.canvases.settings.pad_token_id
            self.accept(token)
        self._fresh = [*before, *_together(self._fresh)]
        return tokens

    def _until_end(self, tokens: Iterable[int]) -> Iterable[int]:
        for token in tokens:
            if token in self._ending.ids:
                return
            yield token

    def _usage(self) -> Usage:
        forwards = self._worth / self._steps if self._steps else 0.0
        return replace(super()._usage(), denoising_steps=self._steps, tokens_per_forward=forwards)

    def _clocked(self, first: float, ran: float) -> tuple[float, int]:
        return ran, len(self._made)


def _spelled(tokens: Iterable[int], tokenizer: Tokenizer) -> str:
    whole = Detokenizer(tokenizer)
    return "".join([*map(whole.push, tokens), whole.finish()])


def _together(deltas: Sequence[Delta]) -> list[Delta]:
    """One delta that holds what these do; the last may be the last of all. Nothing of nothing."""
    if not deltas:
        return []
    return [
        replace(
            deltas[-1],
            text="".join(one.text for one in deltas),
            ids=tuple(token for one in deltas for token in one.ids),
            reasoning="".join(one.reasoning for one in deltas),
            tool_calls=tuple(call for one in deltas for call in one.tool_calls),
        )
    ]
