"""A chat model without weights behind the real engine: it says what a test wrote, in Gemma 4's wire format.

Takes the place of `open_engine`. What it says goes through the real parser, a control token or a word a step.
"""

import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from doppler_core.engine.answer import Answer
from doppler_core.engine.engine import Engine
from doppler_core.engine.generate_check import stop_strings
from doppler_core.engine.request import (
    Canvas,
    Capabilities,
    Delta,
    FinishReason,
    GenerateRequest,
    GenerateResult,
    Timings,
    TokenLogprob,
    Usage,
)
from doppler_core.errors import InputError, ModelNotFoundError, TextTooLongError
from doppler_core.settings import EngineSettings
from doppler_core.text.chat import read_messages, read_tools
from doppler_core.text.chat.form import ReplyParser
from doppler_core.text.chat.gemma4 import GEMMA4
from doppler_core.text.chat.messages import InvalidToolCall, Message, Text, ToolCall
from doppler_plugins.sharing import share

MODELS = ("scripted", "scripted-2")
CAPABILITIES = Capabilities(
    generates=True,
    tools=True,
    structured=True,
    reasoning=True,
    logprobs=True,
    context_length=200,
    chat=True,
)
_PIECES = re.compile(r'(<\|"\|>|<\|\w+>|<\w+\|>)|(\s*[^\s<]+\s*|<)')

Replying = Callable[[GenerateRequest], str]


@dataclass
class ScriptedChat:
    """What the scripted models of one test say and saw. `reply`: gives what to say to a request, in the wire format."""

    reply: Replying = lambda request: "Hello there."
    step_seconds: float = 0.0
    open_seconds: float = 0.0
    weights: str = ""
    capabilities: Capabilities = CAPABILITIES
    canvases: list[Canvas] = field(default_factory=list)  # told before the answer, where drafts are asked for
    opened: list[tuple[str, EngineSettings]] = field(default_factory=list)
    requests: list[GenerateRequest] = field(default_factory=list)
    threads: set[int] = field(default_factory=set)
    widest_step: int = 0
    steps: int = 0
    cancelled: int = 0
    key: object = field(default_factory=object)

    def open_engine(self, model: str, settings: EngineSettings, progress: Any = None) -> Engine:
        """Stands for doppler_plugins.opening.open_engine, shared in the same way."""
        self.note_thread()
        if model not in MODELS:
            raise ModelNotFoundError(f"{model}: no such model")
        return share((self.key, model, settings), lambda: self._open(model, settings))

    def note_thread(self) -> None:
        """Remember who works."""
        self.threads.add(threading.get_ident())

    def _open(self, model: str, settings: EngineSettings) -> Engine:
        time.sleep(self.open_seconds)
        self.opened.append((model, settings))
        return Engine(
            model_id=model,
            identity=f"{model} {settings.precision} {self.weights}",
            capabilities=self.capabilities,
            plan=None,  # type: ignore[arg-type]  # nothing here is lowered
            driver=Driver(self),  # type: ignore[arg-type]  # it takes no texts to embed
            device="scripted",
            memory_bytes=0,
            closing=lambda: None,
        )


@dataclass
class Job:
    """One answer on its way."""

    script: ScriptedChat
    request: GenerateRequest
    pieces: list[tuple[str, str]]
    prompt_tokens: int
    fresh: list[Delta] = field(default_factory=list)
    said: int = 0
    drawn: int = 0
    reason: FinishReason | None = None
    stop: str | None = None

    def __post_init__(self) -> None:
        self.parser = _parser(self.request)
        self.answer = Answer(stop_strings(self.request))

    def say(self) -> None:
        if self.drawn < len(self.script.canvases):
            if self.request.drafts:
                self.fresh.append(Delta("", canvas=self.script.canvases[self.drawn]))
            self.drawn += 1
            return
        most = self.request.max_tokens
        if self.said == len(self.pieces) or (most is not None and self.said >= most):
            self._end("stop" if self.said == len(self.pieces) else "length")
            return
        control, text = self.pieces[self.said]
        self.said += 1
        if self.parser is None:
            self._give([Text(control or text)])
        else:
            self._give(self.parser.control(control) if control else self.parser.text(text))

    def _give(self, parts: Sequence[Any], reason: FinishReason | None = None) -> None:
        said = self.answer.take(parts, last=reason is not None)
        if said.stop is not None:
            reason, self.stop = "stop", said.stop
        elif reason == "stop" and self.answer.calls():
            reason = "tool_calls"
        self.reason = reason
        count = self.request.logprobs
        logprob = TokenLogprob(self.said, -0.5, ((self.said, -0.5),) * (count or 0))
        self.fresh.append(
            Delta(
                said.text,
                () if reason else (self.said,),
                () if count is None or reason else (logprob,),
                reason,
                self._usage() if reason else None,
                Timings(prefill=0.25) if reason else None,
                said.reasoning,
                said.calls,
                stop=said.stop,
            )
        )

    def _end(self, reason: FinishReason) -> None:
        self._give([] if self.parser is None else self.parser.finish(reason != "stop"), reason)

    def done(self) -> bool:
        return self.reason is not None

    def result(self) -> GenerateResult:
        assert self.reason is not None
        count = self.request.logprobs
        found = [TokenLogprob(n + 1, -0.5, ((n + 1, -0.5),) * (count or 0)) for n in range(self.said)]
        whole = self.answer.whole()
        return GenerateResult(
            whole.text,
            tuple(range(1, self.said + 1)),
            self.reason,
            self.stop,
            self._usage(),
            Timings(prefill=0.25),
            () if count is None else tuple(found),
            whole.reasoning,
            tuple(call for call in whole.calls if isinstance(call, ToolCall)),
            tuple(call for call in whole.calls if isinstance(call, InvalidToolCall)),
        )

    def news(self) -> Sequence[Delta]:
        fresh, self.fresh = self.fresh, []
        return fresh

    def cancel(self) -> None:
        self.script.cancelled += 1
        self._end("cancelled")

    def _usage(self) -> Usage:
        thoughts = len(self.answer.whole().reasoning.split())
        figures = (self.drawn, self.said / self.drawn) if self.drawn else ()
        return Usage(self.prompt_tokens, self.prompt_tokens // 2, self.said, thoughts, *figures)


def _parser(request: GenerateRequest) -> ReplyParser | None:
    """Of a reply to the conversation as Gemma 4 would read it, which it has to be able to; None for a text."""
    if isinstance(request.prompt, str) or GEMMA4.parser is None:
        return None
    messages = read_messages(request.prompt)  # type: ignore[arg-type]
    return GEMMA4.parser(GEMMA4.render(messages, read_tools(request.tools), request.thinking))


class Driver:
    def __init__(self, script: ScriptedChat) -> None:
        self._script = script

    def prepare(self, request: GenerateRequest, submitted: float) -> Job:
        script = self._script
        script.note_thread()
        if request.drafts and not script.capabilities.streams_drafts:
            raise InputError("drafts: this model makes one token after the other")
        if request.tools and not script.capabilities.tools:
            raise InputError("tools: this model has no form for them")
        fields = {"thinking": request.thinking, "chat_format": request.chat_format}
        tokens = self.count_tokens(request.prompt, tools=request.tools, **fields)
        if tokens > script.capabilities.context_length:
            raise TextTooLongError(f"the prompt has {tokens} tokens", tokens=tokens)
        script.requests.append(request)
        pieces = _PIECES.findall(script.reply(request))
        return Job(script, request, pieces, tokens)

    def step(self, jobs: Sequence[Job]) -> None:
        self._script.note_thread()
        self._script.steps += 1
        self._script.widest_step = max(self._script.widest_step, len(jobs))
        time.sleep(self._script.step_seconds)
        for job in jobs:
            job.say()

    def warmup(self) -> None:
        pass

    def count_tokens(self, prompt: Any, prompt_name: str | None = None, **fields: Any) -> int:
        asked = GenerateRequest(prompt, **fields)
        beside = (
            len(str(list(asked.tools)).split()) - 1 + 5 * asked.thinking + 3 * (asked.chat_format == "gemma3")
        )
        return len(text_of(prompt).split()) + beside


def text_of(prompt: Any) -> str:
    """All that a prompt says."""
    if isinstance(prompt, str):
        return prompt
    return " ".join(str(part) for message in prompt for part in message.parts)


def last(request: GenerateRequest) -> Message:
    """The last message of a conversation."""
    message = request.prompt[-1]
    assert isinstance(message, Message)
    return message
