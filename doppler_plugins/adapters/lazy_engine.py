"""An engine that opens at its first use, in a thread of its own, and may close when it has been idle.

Takes a model and settings; gives the open engine to threads and to event loops, which are never blocked. It
knows no framework and no kind of request.
"""

import asyncio
import logging
import threading
import weakref
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future, wait
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from doppler_core.engine.engine import Engine
from doppler_core.errors import EngineClosedError, SettingsError
from doppler_core.settings import EngineSettings
from doppler_plugins.handle import EngineHandle

logger = logging.getLogger(__name__)

#: Seconds for which an event loop may stand still untold. An engine that another object has open is there in less.
MOMENT = 0.1


class LazyEngine:
    """A spec (model, settings, keep_alive) and, while in use, its engine.

    Copies and pickles carry the spec alone and are equal to it. keep_alive: seconds an unused engine stays open;
    None = until `close`. Engines of equal specs are shared, so another user may keep one open for longer.
    """

    def __init__(self, model: str, settings: EngineSettings, keep_alive: float | None = None) -> None:
        if keep_alive is not None and not 0 <= keep_alive <= threading.TIMEOUT_MAX:
            raise SettingsError(f"keep_alive={keep_alive!r}: expected seconds, 0 or more, or None for ever")
        self.spec = (model, settings, keep_alive)
        self._lock = threading.Lock()
        self._handle = EngineHandle(model, settings)
        self._opening: Future[Engine] | None = None
        self._uses = 0
        self._timer: threading.Timer | None = None
        self._closed = False
        self._others: dict[str, LazyEngine] = {}

    def of(self, model: str) -> "LazyEngine":
        """That of another model with the same settings, which closes with this one. Raises EngineClosedError after
        that."""
        with self._lock:
            if model == self.spec[0]:
                return self
            self._check_open()
            return self._others.setdefault(model, LazyEngine(model, *self.spec[1:]))

    @contextmanager
    def using(self) -> Iterator[Engine]:
        """The open engine, which stays open inside the block. Raises EngineClosedError after `close`."""
        opening = self._enter()
        if _on_event_loop() and wait([opening], MOMENT).not_done:
            logger.warning(
                "%s is being opened in a coroutine, and the event loop stands still until it is: await awarmup() before",
                self.spec[0],
            )
        try:
            yield opening.result()
        finally:
            self._leave()

    @asynccontextmanager
    async def ausing(self) -> AsyncIterator[Engine]:
        """`using` for event loops: opening is awaited; giving up the wait does not stop it."""
        opening = self._enter()
        try:
            yield await asyncio.wrap_future(opening)
        finally:
            self._leave()

    def close(self) -> None:
        """Give the engine back, for good. A second call does nothing."""
        with self._lock:
            self._closed = True
            self._stop_timer()
            opening, self._opening = self._opening, None
            others = [*self._others.values()]
        if opening is not None:
            wait([opening])
        self._handle.close()
        for other in others:
            other.close()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LazyEngine) and self.spec == other.spec

    def __hash__(self) -> int:
        return hash(self.spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return LazyEngine, self.spec

    def _enter(self) -> Future[Engine]:
        with self._lock:
            self._check_open()
            self._stop_timer()
            if self._opening is None or (self._opening.done() and self._opening.exception()):
                self._opening = Future()
                # A running future can't be cancelled: one waiter that gives up must not stop the others.
                self._opening.set_running_or_notify_cancel()
                # Not the loop's default executor: waiters for a slow opening would fill it.
                threading.Thread(
                    target=_open, args=(self._handle, self._opening), name="doppler-plugins open", daemon=True
                ).start()
            self._uses += 1
            return self._opening

    def _leave(self) -> None:
        keep_alive = self.spec[2]
        with self._lock:
            self._uses -= 1
            if self._uses == 0 and keep_alive is not None and not self._closed:
                # By a weak reference: an object that is dropped gives its engine back, and does not wait for the timer.
                self._timer = threading.Timer(keep_alive, _expire, [weakref.ref(self)])
                self._timer.daemon = True
                self._timer.start()

    def unload(self) -> bool:
        """Give the engine back now, unless it is in use; the next use opens it again. False: it is in use."""
        with self._lock:
            if self._uses:
                return False
            if self._closed:
                return True
            self._stop_timer()
            idle, self._handle = self._handle, EngineHandle(*self.spec[:2])
            self._opening = None
        idle.close()
        return True

    def _check_open(self) -> None:
        if self._closed:
            raise EngineClosedError(f"{self.spec[0]}: close() was called on this object: make a new one")

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _on_event_loop() -> bool:
    """Whether this thread runs one."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _expire(lazy: "weakref.ref[LazyEngine]") -> None:
    alive = lazy()
    if alive is not None:
        alive.unload()


def _open(handle: EngineHandle, opening: Future[Engine]) -> None:
    try:
        engine = handle.engine()
    except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to the callers who wait
        opening.set_exception(error)
    else:
        opening.set_result(engine)
