"""A model without weights that generates: it says what a test tells it to, a word a step, through the real engine.

Takes the place of `open_engine`. A conversation is what a chat model takes and a base model refuses.
"""

import _thread
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from doppler_core.engine.choice import Defaults
from doppler_core.engine.engine import Engine
from doppler_core.engine.request import (
    Canvas,
    Capabilities,
    Delta,
    GenerateRequest,
    GenerateResult,
    Timings,
    TokenLogprob,
    Usage,
)
from doppler_core.errors import NoChatFormatError, TextTooLongError
from doppler_core.settings import EngineSettings
from tests.canvases import WordTokenizer


@dataclass
class ScriptedGenerator:
    """What the model says and saw. `answers`: the words of each answer in turn; the last one is said for ever.
    temperature: what it has where a request does not say. embeds: it does nothing else. thoughts: what it thinks before
    an answer, where that is asked for. canvases: its drafts, a step each, before the words."""

    answers: list[list[str]] = field(default_factory=lambda: [["Hello", " there", "."]])
    thoughts: list[str] = field(default_factory=list)
    canvases: list[Canvas] = field(default_factory=list)
    chats: bool = True
    embeds: bool = False
    context: int = 100
    before_step: Callable[[int], None] = lambda step: None
    requests: list[GenerateRequest] = field(default_factory=list)
    cancelled: int = 0
    steps: int = 0
    temperature: float = 0.0
    progress: tuple[int, int] | None = None
    settings: EngineSettings | None = None

    def open_engine(self, model: str, settings: EngineSettings, progress: Any = None) -> Engine:
        """Stands for doppler_plugins.opening.open_engine."""
        self.settings = settings
        if progress is not None and self.progress is not None:
            progress("expanding weights", *self.progress)
        return Engine(
            model_id=model,
            identity="0",
            capabilities=Capabilities(
                self.embeds,
                not self.embeds,
                bool(self.canvases),
                context_length=self.context,
                chat=self.chats,
            ),
            plan=None,  # type: ignore[arg-type]  # nothing here is lowered
            driver=Driver(self),
            device="scripted",
            memory_bytes=0,
            closing=lambda: None,
            tokenizer=WordTokenizer() if self.canvases else None,  # type: ignore[arg-type]  # it only spells
            defaults=Defaults(temperature=self.temperature),
        )

    @property
    def asked(self) -> list[GenerateRequest]:
        """The requests that wanted an answer."""
        return [request for request in self.requests if request.max_tokens != 0]


@dataclass
class Job:
    """One answer on its way."""

    script: ScriptedGenerator
    request: GenerateRequest
    words: list[str]
    prompt_tokens: int
    said: list[str] = field(default_factory=list)
    fresh: list[str] = field(default_factory=list)
    reason: Any = None
    told: bool = False
    thought: bool = False
    drawn: int = 0
    drafts: list[Delta] = field(default_factory=list)

    def say(self) -> None:
        self.script.steps += 1
        if self.drawn < len(self.script.canvases):
            if self.request.drafts:
                self.drafts.append(Delta("", canvas=self.script.canvases[self.drawn]))
            self.script.before_step(self.drawn)
            self.drawn += 1
            return
        most = self.request.max_tokens
        room = self.script.context - self.prompt_tokens
        if len(self.said) >= (room if most is None else min(most, room)):
            self.reason = "length"
        elif len(self.said) < len(self.words):
            self.script.before_step(len(self.said))
            word = self.words[len(self.said)]
            self.said.append(word)
            self.fresh.append(word)
        else:
            self.reason = "stop"

    def done(self) -> bool:
        return self.reason is not None

    def result(self) -> GenerateResult:
        text, ids = "".join(self.said), tuple(range(len(self.said)))
        return GenerateResult(text, ids, self.reason, None, self._usage(), self._timings())

    def news(self) -> Sequence[Delta]:
        thinks = self.fresh and self.request.thinking and not self.thought
        found, self.drafts = self.drafts, []
        found += [Delta("", reasoning=thought) for thought in self.script.thoughts if thinks]
        self.thought = self.thought or bool(thinks)
        found += [self._delta(word) for word in self.fresh]
        self.fresh.clear()
        if self.done() and not self.told:
            self.told = True
            found.append(Delta("", finish_reason=self.reason, usage=self._usage(), timings=self._timings()))
        return found

    def cancel(self) -> None:
        self.script.cancelled += 1
        self.reason = "cancelled"

    def _delta(self, word: str) -> Delta:
        count = self.request.logprobs
        logprobs = () if count is None else (TokenLogprob(7, -0.5, ((7, -0.5),) * count),)
        return Delta(word, (7,), logprobs)

    def _usage(self) -> Usage:
        per_step = len(self.said) / self.drawn if self.drawn else 0.0
        return Usage(
            self.prompt_tokens, 0, len(self.said), denoising_steps=self.drawn, tokens_per_forward=per_step
        )

    def _timings(self) -> Timings:
        return Timings(prefill=0.25, first_token=0.25, decode=1.0, tokens_per_second=float(len(self.said)))


class Driver:
    def __init__(self, script: ScriptedGenerator) -> None:
        self._script = script

    def prepare(self, request: GenerateRequest, submitted: float) -> Job:
        script = self._script
        if not isinstance(request.prompt, str) and not script.chats:
            raise NoChatFormatError("this model has no chat format", formats=("gemma3", "gemma4"))
        texts = (
            [request.prompt] if isinstance(request.prompt, str) else [m["content"] for m in request.prompt]
        )  # type: ignore[call-overload,index]
        tokens = sum(len(str(text).split()) for text in texts)
        if tokens > script.context and request.overflow == "error":
            raise TextTooLongError(f"the prompt has {tokens} tokens", tokens=tokens, limit=script.context)
        script.requests.append(request)
        index = min(len(script.asked) - 1, len(script.answers) - 1)
        return Job(script, request, script.answers[index], tokens)

    def step(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            job.say()

    def warmup(self) -> None:
        pass

    def count_tokens(self, text: str, prompt_name: str | None = None, **fields: object) -> int:
        return len(text.split())


def interrupt_at_5(step: int) -> None:
    """Ctrl-C, once what was said before is certainly shown; from then on the model takes its time, so that it is not at
    its end before that is noticed."""
    if step == 5:
        time.sleep(0.2)
        _thread.interrupt_main()
    if step > 5:
        time.sleep(0.02)
