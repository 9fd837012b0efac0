"""Threads that share work with the one that calls them. It knows no ops.

Made for work of a fraction of a millisecond: a thread that wakes late, since the system has other things to do, holds
up nobody, for what it has not begun the others take. (A thread pool's futures cost several times as much, and the
threads of a BLAS wait for each other: with a third process on two cores a token took three times as long.)
"""

import itertools
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import TypeVar

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

Job = Callable[[], None]


class Crew:
    """`count` threads, the calling one among them. One thread at a time calls it."""

    def __init__(self, count: int, name: str) -> None:
        self.count = count
        self._jobs: list[SimpleQueue[Job | None]] = [SimpleQueue() for _ in range(count - 1)]
        # Daemons: at the interpreter's end they wait for work, and hold up nothing.
        self._threads = [
            threading.Thread(target=_serve, args=(jobs,), name=f"{name} {number}", daemon=True)
            for number, jobs in enumerate(self._jobs, 1)
        ]
        for thread in self._threads:
            thread.start()

    def run(self, work: Callable[[ItemT], ResultT], items: Sequence[ItemT]) -> list[ResultT]:
        """`work` of each item, begun in order. The first error is raised when all have ended."""
        if len(items) == 1:
            return [work(items[0])]
        results: dict[int, ResultT] = {}
        errors: list[BaseException] = []
        following = itertools.count()  # whose next item no two threads get
        ended: SimpleQueue[None] = SimpleQueue()

        def share() -> int:
            done = 0
            while (index := next(following)) < len(items):
                try:
                    results[index] = work(items[index])
                except BaseException as error:  # noqa: BLE001 - `run` raises it when all have ended
                    errors.append(error)
                done += 1
            return done

        def help_out() -> None:
            for _ in range(share()):
                ended.put(None)

        for jobs in self._jobs[: len(items) - 1]:
            jobs.put(help_out)
        for _ in range(len(items) - share()):
            ended.get()
        if errors:
            raise errors[0]
        return [results[index] for index in range(len(items))]

    def close(self) -> None:
        """End the threads. A second call does nothing."""
        for jobs in self._jobs:
            jobs.put(None)
        for thread in self._threads:
            thread.join()
        self._jobs, self._threads = [], []


def _serve(jobs: "SimpleQueue[Job | None]") -> None:
    while (job := jobs.get()) is not None:
        job()
        del job  # an idle thread keeps nothing of the last step alive
