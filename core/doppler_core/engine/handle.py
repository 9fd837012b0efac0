"""The caller's end of a request: wait for it, await it, cancel it. It knows no device."""

import asyncio
import concurrent.futures
import contextlib
from collections.abc import Generator
from typing import Any, Generic, TypeVar

from doppler_core.errors import CancelledError

ResultT = TypeVar("ResultT")

_CANCELLED = "the request was cancelled"


class Handle(Generic[ResultT]):
    """A submitted request. Any thread or event loop may hold it."""

    def __init__(self) -> None:
        self._future: concurrent.futures.Future[ResultT] = concurrent.futures.Future()

    def result(self, timeout: float | None = None) -> ResultT:
        """Wait for the result; TimeoutError after `timeout` seconds (the request goes on)."""
        try:
            return self._future.result(timeout)
        except concurrent.futures.CancelledError:
            raise CancelledError(_CANCELLED) from None

    def __await__(self) -> Generator[Any, None, ResultT]:
        """Await the result on the running event loop; cancelling the awaiting task cancels the request.

        A request that somebody else cancelled raises CancelledError as `result` does: asyncio's own would say that
        the awaiting task was cancelled.
        """
        try:
            return (yield from asyncio.wrap_future(self._future).__await__())
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise CancelledError(_CANCELLED) from None

    def cancel(self) -> bool:
        """Give the request up at the next step; False if it had finished."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        """Whether the request was given up."""
        return self._future.cancelled()

    def done(self) -> bool:
        """Whether there is a result, an error, or a cancellation."""
        return self._future.done()

    def resolve(self, result: ResultT) -> None:
        """Give the result (the engine's worker calls this); a cancelled request stays cancelled."""
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            self._future.set_result(result)

    def reject(self, error: BaseException) -> None:
        """Give the error (the engine's worker calls this); a cancelled request stays cancelled."""
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            self._future.set_exception(error)
