"""The one thread that owns a device: it takes submitted requests, steps the driver, and settles the replies.

Requests join and cancelled ones leave between steps. They become jobs on a desk beside it, in their order, so that what
a long text takes holds up no step. An error of one request is that request's alone; an error of a step (the device) is
that of every request under way.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from doppler_core.engine.desk import Desk
from doppler_core.engine.handle import Handle
from doppler_core.engine.model_type import Driver, Job
from doppler_core.engine.reply import Reply
from doppler_core.engine.request import Delta
from doppler_core.errors import EngineClosedError, InputError


@dataclass(frozen=True)
class _Running:
    job: Job
    reply: Reply[Any]


class Worker:
    """A thread that steps `driver` while there are requests. `closing` runs in it, last."""

    def __init__(self, driver: Driver, closing: Callable[[], None], name: str) -> None:
        self._driver = driver
        self._closing = closing
        self._waiting: deque[tuple[Callable[[], Job], Reply[Any]]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._desk = Desk(f"doppler-plugins {name}: requests")
        self._thread = threading.Thread(target=self._run, name=f"doppler-plugins {name}", daemon=True)
        self._thread.start()

    def submit(self, prepare: Callable[[], Job], unread: Sequence[Delta] = ()) -> Handle[Any]:
        """Queue a request; `prepare` makes its job, at the desk. unread: its news if it is cancelled before that."""
        self._check_outside()
        reply: Reply[Any] = Reply()
        with self._changed:
            self._check_open()
            self._desk.put(partial(self._prepare, prepare, unread, reply))
        return Handle(reply)

    def call(self, function: Callable[[], Job]) -> Handle[Any]:
        """Have the worker call a function between steps; what it gives is carried on as any job."""
        self._check_outside()
        reply: Reply[Any] = Reply()
        with self._changed:
            self._check_open()
            self._queue(function, reply)
        return Handle(reply)

    def close(self, timeout: float | None = None) -> None:
        """Let no more requests in, fail those under way, release the device, and wait for all that."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._desk.close()
        if not self._is_inside():  # each of them may need the other to end
            for thread in (self._thread, self._desk.thread):
                thread.join(timeout)

    def _is_inside(self) -> bool:
        """Whether one of the worker's own threads asks."""
        return threading.current_thread() in (self._thread, self._desk.thread)

    def _check_outside(self) -> None:
        if self._is_inside():
            raise InputError(
                "a request from a function that this engine calls itself, as a mask's: it would wait for itself for ever; "
                "ask before, and give the function the answer"
            )

    def _check_open(self) -> None:
        if self._closed:
            raise EngineClosedError("the engine is closed: open the model again")

    def _prepare(self, prepare: Callable[[], Job], unread: Sequence[Delta], reply: Reply[Any]) -> None:
        """A request becomes a job, at the desk, unless nobody wants it any more: others wait behind it."""
        if reply.future.cancelled():
            reply.push(unread)
            reply.end()
            return
        try:
            with self._changed:
                self._check_open()
            job = prepare()
            with self._changed:
                self._check_open()
                self._queue(lambda: job, reply)
        except BaseException as error:  # noqa: BLE001 - the thread must live; the reply carries it
            reply.reject(error)

    def _queue(self, function: Callable[[], Job], reply: Reply[Any]) -> None:
        self._waiting.append((function, reply))
        self._changed.notify()

    def _run(self) -> None:
        running: list[_Running] = []
        while self._take(running):
            running = [one for one in running if not _given_up(one)]
            if not running:
                continue
            try:
                self._driver.step([one.job for one in running])
            except BaseException as error:  # noqa: BLE001 - the thread must live; the reply carries it
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
        for function, reply in waiting:
            if closed:
                reply.reject(_closed_before())
                continue
            try:
                one = _Running(function(), reply)
            except BaseException as error:  # noqa: BLE001 - the thread must live; the reply carries it
                reply.reject(error)
            else:
                if not _settled(one):
                    running.append(one)
        return not closed


def _closed_before() -> EngineClosedError:
    return EngineClosedError("the engine was closed before the request ran")


def _reject(running: list[_Running], error: BaseException) -> None:
    """A function of its own: what the thread's own frame names lives on while it waits, and an error that was raised
    to a caller holds the caller's engine."""
    for one in running:
        one.reply.reject(error)


def _given_up(one: _Running) -> bool:
    """Whether the caller cancelled the request; its job is then told so."""
    if not one.reply.future.cancelled():
        return False
    one.job.cancel()
    one.reply.push(one.job.news())
    one.reply.end()
    return True


def _settled(one: _Running) -> bool:
    """Whether a job is done, its reply told so, and of what is new."""
    one.reply.push(one.job.news())
    if not one.job.done():
        return False
    try:
        one.reply.resolve(one.job.result())
    except BaseException as error:  # noqa: BLE001 - the thread must live; the reply carries it
        one.reply.reject(error)
    return True
