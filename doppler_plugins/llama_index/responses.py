"""An answer as LlamaIndex has it: takes core's deltas, gives responses that hold all that has come so far.

A stream and a whole answer are made here alike; it knows neither engines nor event loops.
"""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    ContentBlock,
    LogProb,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)

from doppler_core.engine.request import Delta, TokenLogprob
from doppler_core.text.chat.messages import InvalidToolCall, ToolCall
from doppler_core.text.tokenizer import Tokenizer
from doppler_plugins.adapters.drafts import canvas_figures, draft_of


@dataclass
class Growing:
    """An answer on its way; each delta makes the next response.

    tokenizer: spells the tokens that have a logarithm. streamed: False = the answer comes whole, and nothing is new in it.
    """

    model: str
    tokenizer: Tokenizer | None = None
    streamed: bool = True
    text: str = ""
    reasoning: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    invalid: list[InvalidToolCall] = field(default_factory=list)
    logprobs: list[list[LogProb]] = field(default_factory=list)

    def chat(self, delta: Delta) -> ChatResponse:
        """The response up to this delta: `message` is cumulative; `delta`, and `logprobs` but for the last response, are
        what is new.

        Calls are whole or not there at all. What can't be read as one is in additional_kwargs["invalid_tool_calls"],
        where nobody runs it; a canvas, where drafts were asked for, in additional_kwargs["draft"] of a response of its
        own. The last response has `raw`, with "finish_reason" and "usage".
        """
        self._take(delta)
        return ChatResponse(
            message=self._message(delta),
            delta=delta.text if self.streamed else None,
            raw=self._raw(delta),
            logprobs=self._logprobs(delta) or None,
            additional_kwargs=self._more(delta),
        )

    def completion(self, delta: Delta) -> CompletionResponse:
        """The same of a text, calls that the model makes nevertheless in additional_kwargs["tool_calls"]."""
        self._take(delta)
        return CompletionResponse(
            text=self.text,
            delta=delta.text if self.streamed else None,
            raw=self._raw(delta),
            logprobs=self._logprobs(delta) or None,
            additional_kwargs=self._called() | self._more(delta),
        )

    def _take(self, delta: Delta) -> None:
        self.text += delta.text
        self.reasoning += delta.reasoning
        for call in delta.tool_calls:
            if isinstance(call, ToolCall):
                self.calls.append(call)
            else:
                self.invalid.append(call)

    def _logprobs(self, delta: Delta) -> list[list[LogProb]]:
        # All of them in every response would be the square of an answer's length.
        new = [logprobs_of(one, self.tokenizer) for one in delta.logprobs]
        self.logprobs += new
        return new if delta.usage is None else self.logprobs

    def _message(self, delta: Delta) -> ChatMessage:
        blocks: list[ContentBlock] = []
        if self.reasoning:
            tokens = None if delta.usage is None else delta.usage.reasoning_tokens
            blocks.append(ThinkingBlock(content=self.reasoning, num_tokens=tokens))
        # One block for all text: `ChatMessage.content` puts a line break between two.
        if self.text or not self.calls:
            blocks.append(TextBlock(text=self.text))
        blocks += [
            ToolCallBlock(tool_call_id=call.id, tool_name=call.name, tool_kwargs=dict(call.arguments))
            for call in self.calls
        ]
        # FunctionCallingProgram looks for calls there while they stream, and for nothing but text without them.
        return ChatMessage(role=MessageRole.ASSISTANT, blocks=blocks, additional_kwargs=self._called())

    def _called(self) -> dict[str, Any]:
        return {"tool_calls": [_openai_call(call) for call in self.calls]} if self.calls else {}

    def _more(self, delta: Delta) -> dict[str, Any]:
        more: dict[str, Any] = {}
        if self.streamed and delta.reasoning:
            more["thinking_delta"] = delta.reasoning
        if delta.canvas is not None:
            more["draft"] = draft_of(delta.canvas)
        if self.invalid:
            more["invalid_tool_calls"] = [asdict(call) for call in self.invalid]
        if delta.usage is not None:
            more |= _usage(delta) | _ending(delta)
        return more

    def _raw(self, delta: Delta) -> dict[str, Any] | None:
        if delta.usage is None:
            return None
        timings = {} if delta.timings is None else asdict(delta.timings)
        return {
            "model": self.model,
            **_ending(delta),
            "usage": _usage(delta),
            "timings": timings,
        }


def logprobs_of(one: TokenLogprob, tokenizer: Tokenizer | None) -> list[LogProb]:
    """The token that came, then the likeliest ones that did not, best first."""
    others = [(number, logprob) for number, logprob in one.top if number != one.id]
    return [_logprob(number, logprob, tokenizer) for number, logprob in ((one.id, one.logprob), *others)]


def _logprob(number: int, logprob: float, tokenizer: Tokenizer | None) -> LogProb:
    piece = b"" if tokenizer is None else tokenizer.piece(number)
    name = "" if tokenizer is None or piece else tokenizer.decode([number], skip_special=False)
    return LogProb(token=piece.decode(errors="replace") or name, logprob=logprob, bytes=list(piece))


def _usage(delta: Delta) -> dict[str, Any]:
    """Under the names that TokenCountingHandler looks for."""
    usage = delta.usage
    if usage is None:
        return {}
    counts = {
        "prompt_tokens": usage.prompt_tokens,
        "cached_tokens": usage.cached_tokens,
        "completion_tokens": usage.completion_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
    return counts | canvas_figures(usage)


def _ending(delta: Delta) -> dict[str, Any]:
    stop = {} if delta.stop is None else {"stop_sequence": delta.stop}
    return {"finish_reason": delta.finish_reason, **stop}


def _openai_call(call: ToolCall) -> dict[str, Any]:
    arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
