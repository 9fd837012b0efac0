"""An answer on its way, as LangChain's chunks, and whole, as its message.

Takes the deltas of one request; gives a chunk or several for each, and the message that all of them make. It knows
no engine.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata
from langchain_core.messages.tool import invalid_tool_call, tool_call, tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.utils.json import parse_partial_json

from doppler_core.engine.request import Delta, TokenLogprob, Usage
from doppler_core.text.chat.messages import InvalidToolCall, ToolCall
from doppler_plugins.adapters.drafts import canvas_figures, draft_of
from doppler_plugins.langchain.call import PROVIDER

Piece = Callable[[int], bytes]


class Answer:
    """Collects deltas. `piece`: the bytes of a token, asked for where a delta brings logprobs.

    LangChain merges chunks by the index of their blocks, whatever the blocks are, so that one counter runs through a
    message. An answer of nothing but text is a plain str; from the first other block on, text comes in blocks too, and
    from the beginning where it is not `plain`: drafts come before anybody knows, and LangChain adds nothing but text to
    a text, be it empty.
    """

    def __init__(self, model: str, piece: Callable[[], Piece], plain: bool = True) -> None:
        self._model = model
        self._piece = piece
        self._index = -1
        self._kind = ""
        self._plain = plain
        self._blocks: list[tuple[str, str]] = []
        self._calls: list[ToolCall | InvalidToolCall] = []
        self._logprobs: list[dict[str, Any]] = []
        self._last: Delta | None = None

    def chunks(self, delta: Delta) -> Iterator[ChatGenerationChunk]:
        """What a delta adds. Each chunk holds one kind of block; the last of the message says how it ended."""
        said = self._said(delta)
        logprobs = openai_logprobs(delta.logprobs, self._piece()) if delta.logprobs else []
        self._logprobs += logprobs
        if delta.finish_reason is not None:
            self._last = delta
            said.append(
                AIMessageChunk(content="", chunk_position="last", response_metadata=self._metadata(delta))
            )
            said[-1].usage_metadata = _usage(delta)
        elif logprobs and not said:
            said.append(AIMessageChunk(content=""))
        for number, message in enumerate(said):
            if number == 0 and logprobs:
                message.response_metadata["logprobs"] = {"content": logprobs}
            yield ChatGenerationChunk(message=message)

    def message(self) -> AIMessage:
        """The whole message. A call that was cut off or can't be read is among `invalid_tool_calls` and nowhere else."""
        last = self._last
        metadata: dict[str, Any] = {} if last is None else self._metadata(last)
        if self._logprobs:
            metadata["logprobs"] = {"content": self._logprobs}
        calls = [call for call in self._calls if isinstance(call, ToolCall)]
        invalid = [call for call in self._calls if isinstance(call, InvalidToolCall)]
        return AIMessage(
            self._content(),
            tool_calls=[tool_call(name=call.name, args=dict(call.arguments), id=call.id) for call in calls],
            invalid_tool_calls=[
                invalid_tool_call(name=call.name, args=call.text, id=call.id, error=call.error)
                for call in invalid
            ],
            additional_kwargs=_unreadable(invalid),
            response_metadata=metadata,
            usage_metadata=None if last is None else _usage(last),
        )

    def _said(self, delta: Delta) -> list[AIMessageChunk]:
        said = []
        if delta.canvas is not None:
            # A list, as merging chunks makes one longer; of two numbers it would make their sum.
            drafts = {"drafts": [draft_of(delta.canvas)]}
            said.append(AIMessageChunk(content="" if self._plain else [], additional_kwargs=drafts))
        if delta.reasoning:
            self._add("reasoning", delta.reasoning)
            self._plain = False
            said.append(self._block("reasoning", delta.reasoning))
        if delta.text:
            self._add("text", delta.text)
            said.append(
                AIMessageChunk(content=delta.text) if self._plain else self._block("text", delta.text)
            )
        for call in delta.tool_calls:
            self._plain = False
            self._index, self._kind = self._index + 1, ""
            self._calls.append(call)
            said.append(_message_of(call, self._index))
        return said

    def _add(self, kind: str, text: str) -> None:
        if self._kind == kind:
            self._blocks[-1] = (kind, self._blocks[-1][1] + text)
            return
        self._index, self._kind = self._index + 1, kind
        self._blocks.append((kind, text))

    def _block(self, kind: str, text: str) -> AIMessageChunk:
        return AIMessageChunk(content=[{"type": kind, kind: text, "index": self._index}])

    def _content(self) -> str | list[str | dict[Any, Any]]:
        if all(kind == "text" for kind, _ in self._blocks):
            return "".join(text for _, text in self._blocks)
        return [{"type": kind, kind: text} for kind, text in self._blocks]

    def _metadata(self, last: Delta) -> dict[str, Any]:
        return {
            "model_name": self._model,
            "model_provider": PROVIDER,
            "finish_reason": last.finish_reason,
            **({} if last.stop is None else {"stop_sequence": last.stop}),
            **({} if last.timings is None else {"timings": asdict(last.timings)}),
            **canvas_figures(last.usage),
        }


def openai_logprobs(logprobs: Sequence[TokenLogprob], piece: Piece) -> list[dict[str, Any]]:
    """Logprobs as OpenAI gives them. `piece`: the bytes of a token."""
    return [
        {
            **_token(piece(one.id), one.logprob),
            "top_logprobs": [_token(piece(token), logprob) for token, logprob in one.top],
        }
        for one in logprobs
    ]


def usage_metadata(usage: Usage) -> UsageMetadata:
    """Tokens in LangChain's words: those of the prompt that were kept from before, and those that reason, as details."""
    return UsageMetadata(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
        input_token_details=InputTokenDetails(cache_read=usage.cached_tokens),
        output_token_details=OutputTokenDetails(reasoning=usage.reasoning_tokens),
    )


def _token(piece: bytes, logprob: float) -> dict[str, Any]:
    return {"token": piece.decode("utf-8", "replace"), "bytes": list(piece), "logprob": logprob}


def _message_of(call: ToolCall | InvalidToolCall, index: int) -> AIMessageChunk:
    """A call comes whole, so that nobody can see, and run, the half of one."""
    if isinstance(call, ToolCall):
        arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
        chunk = tool_call_chunk(name=call.name, args=arguments, id=call.id, index=index)
        return AIMessageChunk(content="", tool_call_chunks=[chunk])
    chunk = tool_call_chunk(name=call.name, args=_never_json(call.text), id=call.id or None, index=index)
    found = AIMessageChunk(content="", tool_call_chunks=[chunk], additional_kwargs=_unreadable([call]))
    found.invalid_tool_calls[0]["error"] = call.error
    return found


def _unreadable(calls: Sequence[InvalidToolCall]) -> dict[str, Any]:
    """Why calls are none, beside LangChain's own form of them: that loses its `error` where chunks are added."""
    return {"invalid_tool_calls": [asdict(call) for call in calls]} if calls else {}


def _never_json(text: str) -> str:
    """The text, in a form that LangChain, which repairs cut JSON in chunks, can't take for arguments."""
    try:
        parse_partial_json(text)
    except ValueError:
        if text:
            return text
    return f"unreadable call: {text}"


def _usage(last: Delta) -> UsageMetadata | None:
    return None if last.usage is None else usage_metadata(last.usage)
