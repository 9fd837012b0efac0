"""One generation on its way: tokens in, one after the other, deltas and a result out. It knows no device.

What makes the tokens may run ahead: tokens that come after the end are dropped here.
"""

import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from doppler_core.engine.answer import Answer, Said
from doppler_core.engine.choice import Choice
from doppler_core.engine.reply_reader import ReplyReader
from doppler_core.engine.request import Delta, FinishReason, GenerateResult, Timings, TokenLogprob, Usage
from doppler_core.engine.token_mask import CheckedMask
from doppler_core.text.chat import InvalidToolCall, Reasoning, ReplyPart, ToolCall


@dataclass(frozen=True)
class Ending:
    """What ends a text: so many tokens, a token of `ids`, a string of `strings`; one_call: the first whole call."""

    limit: int
    ids: frozenset[int] = frozenset()
    strings: tuple[str, ...] = ()
    one_call: bool = False


class GenerateJob:
    """The answer to one request.

    ids: of the prompt. choice: how its tokens are chosen. logprobs: None, or how many likeliest tokens are told.
    """

    def __init__(
        self,
        ids: Sequence[int],
        choice: Choice,
        ending: Ending,
        logprobs: int | None,
        reader: ReplyReader,
        submitted: float,
    ) -> None:
        self.ids = ids
        self.choice = choice
        self.limit = ending.limit
        self.logprobs = logprobs
        self._ending = ending
        self._mask: CheckedMask | None = None
        self._reader = reader
        self._answer = Answer(ending.strings)
        self._cached = 0
        self._submitted = submitted
        self._placed = self._ran = self._first = self._last = 0.0
        self._made: list[int] = []
        self._logprobs: list[TokenLogprob] = []
        self._told = 0  # tokens that some delta has had
        self._sure = 0  # tokens that some part came of
        self._reasoning = 0  # those of thoughts
        self._fresh: list[Delta] = []
        self._result: GenerateResult | None = None
        self._error: BaseException | None = None

    @property
    def steered(self) -> bool:
        """Whether the host has a part in each step."""
        return self.logprobs is not None or self.masked

    @property
    def masked(self) -> bool:
        """Whether something limits its tokens."""
        return self.choice.mask is not None

    @property
    def waits_for(self) -> Future[CheckedMask] | None:
        """What has to be there before it can have a place."""
        return None if self.choice.mask is None or self.choice.mask.done() else self.choice.mask

    def place(self, cached: int) -> None:
        """The request has a place, where the first `cached` tokens of its prompt have been run already. Raises what its
        mask failed of."""
        self._cached = cached
        self._placed = time.perf_counter()
        self._mask = None if self.choice.mask is None else self.choice.mask.result()

    def accept(self, token: int, logprobs: npt.NDArray[np.uint32] | None = None) -> None:
        """The next token, and the words of the plan's `logprobs` for it where they were asked for."""
        if self.done():
            return
        self._last = time.perf_counter()
        self._first = self._first or self._last
        if token in self._ending.ids:
            self._finish("stop", token)
            return
        self._made.append(token)
        if logprobs is not None and self.logprobs is not None:
            self._logprobs.append(_logprob(token, logprobs, self.logprobs))
        parts = self._counted(self._reader.push(token))
        if len(self._made) == self.limit:
            self._finish("length", None, parts)
            return
        said = self._answer.take(parts)
        if said.stop is not None:
            self._end(said, "stop", said.stop)
        elif self._ending.one_call and any(isinstance(call, ToolCall) for call in said.calls):
            self._end(said, "tool_calls", None)
        else:
            if not said.empty:
                self._fresh.append(self._delta(said))
            if self._mask is not None:
                self._mask.accept(token)
                if self._mask.stopped:
                    self._finish("stop", None)

    def allowed(self) -> npt.NDArray[np.uint32]:
        """The words of its mask for the next token."""
        assert self._mask is not None
        return self._mask.words()

    def skip(self) -> Sequence[int]:
        """The tokens that must come next, as its mask has it; they are taken as if they had been made.

        There are none where each has to go through the device all the same: for its probability, or to be counted.
        """
        mask, sampling = self._mask, self.choice.sampling
        weighed = self.logprobs is not None or sampling.penalized or sampling.biased
        if mask is None or weighed or self.limit == 0 or self.done():
            return ()
        before = len(self._made)
        for token in mask.forced():
            self.accept(token)
        return self._made[before:]

    def prompt_done(self) -> None:
        """Every token of the prompt has been run: the end of a request for no tokens."""
        self._ran = self._ran or time.perf_counter()
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

    def _finish(self, reason: FinishReason, stop: int | None, parts: Sequence[ReplyPart] = ()) -> None:
        """End with `parts` and all that was held back: half a character, the begin of a stop string, half a call."""
        held = self._counted(self._reader.finish(cut=reason != "stop"))
        said = self._answer.take([*parts, *held], last=True)
        if said.stop is not None:
            self._end(said, "stop", said.stop)
        elif self._answer.calls() and (reason == "stop" or self._ending.one_call):
            self._end(said, "tool_calls", stop)
        else:
            self._end(said, reason, stop)

    def _end(self, said: Said, reason: FinishReason, stop: str | int | None) -> None:
        usage, timings = self._usage(), self._timings()
        self._fresh.append(self._delta(said, reason, usage, timings))
        whole = self._answer.whole()
        self._result = GenerateResult(
            whole.text,
            tuple(self._made),
            reason,
            stop,
            usage,
            timings,
            tuple(self._logprobs),
            whole.reasoning,
            tuple(call for call in whole.calls if isinstance(call, ToolCall)),
            tuple(call for call in whole.calls if isinstance(call, InvalidToolCall)),
        )

    def _counted(self, parts: Sequence[ReplyPart]) -> Sequence[ReplyPart]:
        """The parts; the tokens that made them count as what the first of them is."""
        if parts:
            if isinstance(parts[0], Reasoning):
                self._reasoning += len(self._made) - self._sure
            self._sure = len(self._made)
        return parts

    def _delta(
        self,
        said: Said,
        reason: FinishReason | None = None,
        usage: Usage | None = None,
        timings: Timings | None = None,
    ) -> Delta:
        first, self._told = self._told, len(self._made)
        return Delta(
            said.text,
            tuple(self._made[first:]),
            tuple(self._logprobs[first:]),
            reason,
            usage,
            timings,
            said.reasoning,
            said.calls,
            stop=said.stop,
        )

    def _usage(self) -> Usage:
        return Usage(len(self.ids), self._cached, len(self._made), self._reasoning)

    def _timings(self) -> Timings:
        now = time.perf_counter()
        placed = self._placed or now
        first, last = self._first or now, self._last or now
        ran = self._ran or first  # later than the first token where that was skipped
        begun, timed = self._clocked(first, ran)
        decode = max(0.0, last - begun)
        return Timings(
            queue=placed - self._submitted,
            prefill=ran - placed,
            first_token=first - self._submitted,
            decode=decode,
            tokens_per_second=timed / decode if timed > 0 and decode > 0 else 0.0,
        )

    def _clocked(self, first: float, ran: float) -> tuple[float, int]:
        """Since when how many tokens were made. first: when the first one came; ran: when the prompt had run."""
        return max(first, ran), len(self._made) - 1


def _logprob(token: int, words: npt.NDArray[np.uint32], count: int) -> TokenLogprob:
    """Words of plan op `logprobs`: the token's own, nothing, then pairs of id and logarithm, best first."""
    values = words.view(np.float32)
    top = tuple((int(words[at]), float(values[at + 1])) for at in range(2, 2 + 2 * count, 2))
    return TokenLogprob(token, float(values[0]), top)
