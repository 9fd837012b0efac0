"""One generation on its way: tokens in, one after the other, deltas and a result out. It knows no device.

What makes the tokens may run ahead: tokens that come after the end are dropped here.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from doppler_core.engine.choice import Choice
from doppler_core.engine.request import Delta, FinishReason, GenerateResult, Timings, TokenLogprob, Usage
from doppler_core.engine.stopping import StopStrings
from doppler_core.text.detokenizer import Detokenizer


@dataclass(frozen=True)
class Ending:
    """What ends a text: so many tokens, a token of `ids`, a string of `strings`."""

    limit: int
    ids: frozenset[int] = frozenset()
    strings: tuple[str, ...] = ()


class GenerateJob:
    """The answer to one request.

    ids: of the prompt. choice: how its tokens are chosen. logprobs: None, or how many likeliest tokens are told.
    allowed: the words of its mask for the next token, None where it has none.
    """

    def __init__(
        self,
        ids: Sequence[int],
        choice: Choice,
        ending: Ending,
        logprobs: int | None,
        detokenizer: Detokenizer,
        submitted: float,
    ) -> None:
        self.ids = ids
        self.choice = choice
        self.limit = ending.limit
        self.logprobs = logprobs
        self.allowed = None if choice.mask is None else choice.mask.words()
        self._ends = ending.ids
        self._stops = StopStrings(ending.strings)
        self._detokenizer = detokenizer
        self._cached = 0
        self._submitted = submitted
        self._placed = self._first = self._last = 0.0
        self._made: list[int] = []
        self._logprobs: list[TokenLogprob] = []
        self._told = 0  # tokens that some delta has had
        self._texts: list[str] = []
        self._fresh: list[Delta] = []
        self._result: GenerateResult | None = None
        self._error: BaseException | None = None

    @property
    def steered(self) -> bool:
        """Whether the host has a part in each step."""
        return self.logprobs is not None or self.choice.mask is not None

    def place(self, cached: int) -> None:
        """The request has a place, where the first `cached` tokens of its prompt have been run already."""
        self._cached = cached
        self._placed = time.perf_counter()

    def accept(self, token: int, logprobs: npt.NDArray[np.uint32] | None = None) -> None:
        """The next token, and the words of the plan's `logprobs` for it where they were asked for."""
        if self.done():
            return
        self._last = time.perf_counter()
        self._first = self._first or self._last
        if token in self._ends:
            self._finish("stop", token)
            return
        self._made.append(token)
        if logprobs is not None and self.logprobs is not None:
            self._logprobs.append(_logprob(token, logprobs, self.logprobs))
        text, stop = self._stops.push(self._detokenizer.push(token))
        if stop is not None:
            self._end(text, "stop", stop)
        elif len(self._made) == self.limit:
            self._finish("length", None, text)
        elif text:
            self._fresh.append(self._delta(text))
        if self.choice.mask is not None and not self.done():
            self.choice.mask.accept(token)
            self.allowed = self.choice.mask.words()

    def prompt_done(self) -> None:
        """Every token of the prompt has been run: the end of a request for no tokens."""
        if self.limit == 0 and not self.done():
            self._finish("length", None)

    def fail(self, error: BaseException) -> None:
        """The device could not make a token for this request."""
        self._error = error

    def done(self) -> bool:
        """Whether the text has ended, or nobody wants it any more."""
        return self._result is not None or self._error is not None

    def result(self) -> GenerateResult:
        """The whole answer of a job that is done; raises what it failed of."""
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def news(self) -> Sequence[Delta]:
        """The deltas since the last call."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def cancel(self) -> None:
        """End the text here."""
        if not self.done():
            self._finish("cancelled", None)

    def _finish(self, reason: FinishReason, stop: int | None, text: str = "") -> None:
        """End with all that was held back: half a character, the begin of a stop string."""
        rest, string = self._stops.push(self._detokenizer.finish())
        if string is not None:
            self._end(text + rest, "stop", string)
        else:
            self._end(text + rest + self._stops.finish(), reason, stop)

    def _end(self, text: str, reason: FinishReason, stop: str | int | None) -> None:
        usage, timings = Usage(len(self.ids), self._cached, len(self._made)), self._timings()
        self._fresh.append(self._delta(text, reason, usage, timings))
        self._result = GenerateResult(
            "".join(self._texts), tuple(self._made), reason, stop, usage, timings, tuple(self._logprobs)
        )

    def _delta(
        self,
        text: str,
        reason: FinishReason | None = None,
        usage: Usage | None = None,
        timings: Timings | None = None,
    ) -> Delta:
        self._texts.append(text)
        first, self._told = self._told, len(self._made)
        return Delta(text, tuple(self._made[first:]), tuple(self._logprobs[first:]), reason, usage, timings)

    def _timings(self) -> Timings:
        now = time.perf_counter()
        placed = self._placed or now
        first, last = self._first or now, self._last or now
        decode = last - first
        return Timings(
            queue=placed - self._submitted,
            prefill=first - placed,
            first_token=first - self._submitted,
            decode=decode,
            tokens_per_second=(len(self._made) - 1) / decode if len(self._made) > 1 and decode > 0 else 0.0,
        )


def _logprob(token: int, words: npt.NDArray[np.uint32], count: int) -> TokenLogprob:
    """Words of plan op `logprobs`: the token's own, nothing, then pairs of id and logarithm, best first."""
    values = words.view(np.float32)
    top = tuple((int(words[at]), float(values[at + 1])) for at in range(2, 2 + 2 * count, 2))
    return TokenLogprob(token, float(values[0]), top)
