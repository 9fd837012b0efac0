"""What a request's two ends share: the worker puts deltas and a result in, the caller's handle takes them out.

Neither end waits for the other but where it asks to. It lives without the handle, so that a handle nobody holds any
more can be noticed.
"""

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

ResultT = TypeVar("ResultT")


class Reply(Generic[ResultT]):
    """Deltas in order, kept until the handle goes, and a future for the result."""

    def __init__(self) -> None:
        self.future: concurrent.futures.Future[ResultT] = concurrent.futures.Future()
        self._deltas: list[Any] = []
        self._ended = False
        self._changed = threading.Condition()
        self._wakers: list[Callable[[], object]] = []

    def push(self, deltas: Sequence[Any]) -> None:
        """Add deltas (worker)."""
        if deltas:
            with self._changed:
                self._deltas += deltas
                self._wake()

    def resolve(self, result: ResultT) -> None:
        """Give the result (worker); a cancelled request stays cancelled."""
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            self.future.set_result(result)
        self.end()

    def reject(self, error: BaseException) -> None:
        """Give the error (worker); a cancelled request stays cancelled."""
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            self.future.set_exception(error)
        self.end()

    def end(self) -> None:
        """Say that no delta follows (worker)."""
        with self._changed:
            self._ended = True
            self._wake()

    def wait(self, seen: int) -> tuple[list[Any], bool]:
        """The deltas behind the first `seen` ones, once there are any or none follow; and whether none follow."""
        with self._changed:
            self._changed.wait_for(lambda: self._has_news(seen))
            return self._deltas[seen:], self._ended

    async def await_(self, seen: int) -> tuple[list[Any], bool]:
        """`wait` for event loops."""
        while True:
            loop = asyncio.get_running_loop()
            woken: asyncio.Future[None] = loop.create_future()
            with self._changed:
                if self._has_news(seen):
                    return self._deltas[seen:], self._ended
                self._wakers.append(partial(loop.call_soon_threadsafe, _set, woken))
            await woken

    def _has_news(self, seen: int) -> bool:
        return self._ended or len(self._deltas) > seen

    def _wake(self) -> None:
        self._changed.notify_all()
        wakers, self._wakers = self._wakers, []
        for wake in wakers:
            with contextlib.suppress(RuntimeError):  # its loop is closed: nobody waits there
                wake()


def _set(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
