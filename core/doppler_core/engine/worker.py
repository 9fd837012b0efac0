"""The one thread that owns a device: it takes submitted requests, steps the driver, and settles the handles.

Requests join and cancelled ones leave between steps. An error of one request is that request's alone; an error of
a step (the device) is that of every request under way.
"""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from doppler_core.engine.handle import Handle
from doppler_core.engine.model_type import Driver, Job
from doppler_core.errors import EngineClosedError


@dataclass(frozen=True)
class _Running:
    job: Job
    handle: Handle[Any]


class Worker:
    """A thread that steps `driver` while there are requests. `closing` runs in it, last."""

    def __init__(self, driver: Driver, closing: Callable[[], None], name: str) -> None:
        self._driver = driver
        self._closing = closing
        self._waiting: deque[tuple[Callable[[], Job], Handle[Any]]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"doppler-plugins {name}", daemon=True)
        self._thread.start()

    def submit(self, prepare: Callable[[], Job]) -> Handle[Any]:
        """Queue a request; `prepare` makes its job, in the worker."""
        handle: Handle[Any] = Handle()
        with self._changed:
            if self._closed:
                raise EngineClosedError("the engine is closed: open the model again")
            self._waiting.append((prepare, handle))
            self._changed.notify()
        return handle

    def close(self, timeout: float | None = None) -> None:
        """Let no more requests in, fail those under way, release the device, and wait for all that."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def _run(self) -> None:
        running: list[_Running] = []
        while self._take(running):
            running = [one for one in running if not one.handle.cancelled()]
            if not running:
                continue
            try:
                self._driver.step([one.job for one in running])
            except BaseException as error:  # noqa: BLE001 - the thread must live; the handle raises it
                _reject(running, error)
                running = []
            running = [one for one in running if not _settled(one)]
        _reject(running, EngineClosedError("the engine was closed while the request ran"))
        self._closing()

    def _take(self, running: list[_Running]) -> bool:
        """Move waiting requests to `running`, waiting for one if there is none; False once closed."""
        with self._changed:
            while not (self._waiting or running or self._closed):
                self._changed.wait()
            waiting = list(self._waiting)
            self._waiting.clear()
            closed = self._closed
        for prepare, handle in waiting:
            if closed:
                handle.reject(EngineClosedError("the engine was closed before the request ran"))
            elif not handle.cancelled():
                try:
                    one = _Running(prepare(), handle)
                except BaseException as error:  # noqa: BLE001 - the thread must live; the handle raises it
                    handle.reject(error)
                else:
                    if not _settled(one):
                        running.append(one)
        return not closed


def _reject(running: list[_Running], error: BaseException) -> None:
    """A function of its own: what the thread's own frame names lives on while it waits, and an error that was raised
    to a caller holds the caller's engine."""
    for one in running:
        one.handle.reject(error)


def _settled(one: _Running) -> bool:
    """Whether a job is done, its handle told so."""
    if not one.job.done():
        return False
    try:
        one.handle.resolve(one.job.result())
    except BaseException as error:  # noqa: BLE001 - the thread must live; the handle raises it
        one.handle.reject(error)
    return True
