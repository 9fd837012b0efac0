"""The caller's end of a request: wait for it, await it, read it as it comes, cancel it. It knows no device."""

import asyncio
import concurrent.futures
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any, Generic, Self, TypeVar

from doppler_core.engine.reply import Reply
from doppler_core.engine.request import Delta
from doppler_core.errors import CancelledError

ResultT = TypeVar("ResultT")

_CANCELLED = "the request was cancelled"


class Handle(Generic[ResultT]):
    """A submitted request. Any thread or event loop may hold it; one that nobody holds any more is cancelled.

    Iterating, `for` or `async for`, gives the deltas of a generation from the first on, and raises what `result`
    would raise, but for a cancellation: that is the last delta's finish_reason. Leaving an iteration before its end
    cancels the request. A reader that is slow, or stops, holds up nobody.
    """

    def __init__(self, reply: Reply[ResultT]) -> None:
        self._reply = reply

    def result(self, timeout: float | None = None) -> ResultT:
        """Wait for the result; TimeoutError after `timeout` seconds (the request goes on)."""
        try:
            return self._reply.future.result(timeout)
        except concurrent.futures.CancelledError:
            raise CancelledError(_CANCELLED) from None

    def __await__(self) -> Generator[Any, None, ResultT]:
        """Await the result on the running event loop; cancelling the awaiting task cancels the request.

        A request that somebody else cancelled raises CancelledError as `result` does: asyncio's own would say that
        the awaiting task was cancelled.
        """
        try:
            return (yield from asyncio.wrap_future(self._reply.future).__await__())
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise CancelledError(_CANCELLED) from None

    def __iter__(self) -> Iterator[Delta]:
        seen, ended = 0, False
        try:
            while not ended:
                deltas, ended = self._reply.wait(seen)
                seen += len(deltas)
                yield from deltas
        finally:
            self.cancel()
        self._raise_error()

    async def __aiter__(self) -> AsyncIterator[Delta]:
        seen, ended = 0, False
        try:
            while not ended:
                deltas, ended = await self._reply.await_(seen)
                seen += len(deltas)
                for delta in deltas:
                    yield delta
        finally:
            self.cancel()
        self._raise_error()

    def cancel(self) -> bool:
        """Give the request up at the next step; False if it had finished."""
        return self._reply.future.cancel()

    def cancelled(self) -> bool:
        """Whether the request was given up."""
        return self._reply.future.cancelled()

    def done(self) -> bool:
        """Whether there is a result, an error, or a cancellation."""
        return self._reply.future.done()

    def __copy__(self) -> Self:
        """The handle itself: a second one would cancel the request as soon as it goes."""
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __del__(self) -> None:
        self._reply.future.cancel()

    def _raise_error(self) -> None:
        future = self._reply.future
        if not future.cancelled() and (error := future.exception()) is not None:
            raise error
