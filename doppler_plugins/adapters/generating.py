"""Requests to answers through a lazy engine, for threads and for event loops, whole or as they come.

Takes GenerateRequests; gives results, or deltas. An interrupted wait, a cancelled task, a closed generator and a
passed timeout give the request up. It knows no framework.
"""

import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from doppler_core.engine.engine import Engine
from doppler_core.engine.handle import Handle
from doppler_core.engine.request import Capabilities, Delta, GenerateRequest, GenerateResult
from doppler_core.errors import CancelledError
from doppler_core.text.tokenizer import well_formed
from doppler_plugins.adapters.lazy_engine import LazyEngine


def whole(result: GenerateResult) -> Delta:
    """A whole answer as the one delta of a stream that has no other."""
    return Delta(
        result.text,
        result.ids,
        result.logprobs,
        result.finish_reason,
        result.usage,
        result.timings,
        result.reasoning,
        (*result.tool_calls, *result.invalid_tool_calls),
        stop=result.stop if isinstance(result.stop, str) else None,
    )


def generate(lazy: LazyEngine, request: GenerateRequest, timeout: float | None = None) -> GenerateResult:
    """One whole answer. Raises TimeoutError `timeout` seconds after the model is open, and what opening and the engine
    raise."""
    return generate_all(lazy, [request], timeout)[0]


async def agenerate(
    lazy: LazyEngine, request: GenerateRequest, timeout: float | None = None
) -> GenerateResult:
    """`generate` on an event loop, which does no engine work."""
    return (await agenerate_all(lazy, [request], timeout))[0]


def generate_all(
    lazy: LazyEngine, requests: Sequence[GenerateRequest], timeout: float | None = None
) -> list[GenerateResult]:
    """An answer to each request; they run together. The first error gives the others up."""
    with lazy.using() as engine:
        handles = _submit(engine, requests)
        try:
            with _limited(handles, timeout):
                return [handle.result() for handle in handles]
        finally:
            _give_up(handles)


async def agenerate_all(
    lazy: LazyEngine, requests: Sequence[GenerateRequest], timeout: float | None = None
) -> list[GenerateResult]:
    """`generate_all` on an event loop."""
    async with lazy.ausing() as engine:
        handles = _submit(engine, requests)
        try:
            with _limited(handles, timeout):
                return [await handle for handle in handles]
        finally:
            _give_up(handles)


def stream(lazy: LazyEngine, request: GenerateRequest, timeout: float | None = None) -> Iterator[Delta]:
    """The deltas of one answer as they come."""
    with lazy.using() as engine:
        handle = engine.submit(_limited_by_default(request, engine.capabilities))
        try:
            with _limited([handle], timeout) as expired:
                yield from handle
                _check(handle, expired)
        finally:
            _give_up([handle])


async def astream(
    lazy: LazyEngine, request: GenerateRequest, timeout: float | None = None
) -> AsyncIterator[Delta]:
    """`stream` on an event loop."""
    async with lazy.ausing() as engine:
        handle = engine.submit(_limited_by_default(request, engine.capabilities))
        try:
            with _limited([handle], timeout) as expired:
                async for delta in handle:
                    yield delta
                _check(handle, expired)
        finally:
            _give_up([handle])


def count_tokens(lazy: LazyEngine, request: GenerateRequest) -> int:
    """Tokens of a request's prompt, as the model runs it."""
    with lazy.using() as engine:
        return engine.count_tokens(
            request.prompt,
            tools=request.tools,
            thinking=request.thinking,
            chat_format=request.chat_format,
        )


def token_ids(lazy: LazyEngine, text: str) -> list[int]:
    """The tokens of a text by itself: no begin token, and control tokens in it are text."""
    with lazy.using() as engine:
        return [] if engine.tokenizer is None else engine.tokenizer.encode(well_formed(text), bare=True)


def pieces(lazy: LazyEngine) -> Callable[[int], bytes]:
    """The bytes of each token by its id. Opens the model."""
    with lazy.using() as engine:
        tokenizer = engine.tokenizer
    return (lambda _: b"") if tokenizer is None else tokenizer.piece


def capabilities(lazy: LazyEngine) -> Capabilities:
    """What the model can do. Opens it."""
    with lazy.using() as engine:
        return engine.capabilities


def answer_room(can: Capabilities) -> int | None:
    """Most tokens of an answer where nobody says: a quarter of the context, so that a model that finds no end stops, and
    whoever fits prompts can count on the rest. None of a model that makes canvases: its manifest says."""
    return None if can.streams_drafts else can.context_length // 4 or None


def identity(lazy: LazyEngine) -> str:
    """A hash that changes with whatever changes the text a model makes. Opens it."""
    with lazy.using() as engine:
        return engine.identity


async def aopened(lazy: LazyEngine) -> None:
    """Open the model, without holding up the event loop."""
    async with lazy.ausing():
        return


def _submit(engine: Engine, requests: Sequence[GenerateRequest]) -> list[Handle[GenerateResult]]:
    """Requests whose answers come whole. Nobody would see their drafts, which take time and room: only a model that has
    none is asked for them, and says so."""
    can = engine.capabilities
    asked = [replace(request, drafts=False) if can.streams_drafts else request for request in requests]
    return [engine.submit(_limited_by_default(request, can)) for request in asked]


def _limited_by_default(request: GenerateRequest, can: Capabilities) -> GenerateRequest:
    return replace(request, max_tokens=answer_room(can)) if request.max_tokens is None else request


@contextmanager
def _limited(handles: Sequence[Handle[GenerateResult]], seconds: float | None) -> Iterator[threading.Event]:
    """Gives the requests up after `seconds`, sets the event, and raises TimeoutError for who waits for a result."""
    expired = threading.Event()
    if seconds is None:
        yield expired
        return

    def expire() -> None:
        expired.set()  # before the waiter can see that the request is cancelled
        _give_up(handles)

    timer = threading.Timer(seconds, expire)
    timer.daemon = True
    timer.start()
    try:
        yield expired
    except CancelledError:
        if expired.is_set():
            raise _timed_out() from None
        raise
    finally:
        timer.cancel()


def _check(handle: Handle[GenerateResult], expired: threading.Event) -> None:
    # For who reads deltas a cancelled request just ends.
    if expired.is_set() and handle.cancelled():
        raise _timed_out()


def _timed_out() -> TimeoutError:
    return TimeoutError(
        "the answer took longer than `timeout` and was given up: allow more seconds, or fewer max_tokens"
    )


def _give_up(handles: Sequence[Handle[GenerateResult]]) -> None:
    for handle in handles:
        handle.cancel()
