"""A thread that does one thing after the other, in the order they come. It knows neither requests nor devices."""

import threading
from collections.abc import Callable
from queue import SimpleQueue

Task = Callable[[], None]


class Desk:
    """thread: the desk's own, a daemon, as whoever owns it closes it before the process ends."""

    def __init__(self, name: str) -> None:
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self.thread = threading.Thread(target=_serve, args=(self._tasks,), name=name, daemon=True)
        self.thread.start()

    def put(self, task: Task) -> None:
        """Do this after all that was put before. It raises nothing."""
        self._tasks.put(task)

    def close(self) -> None:
        """End once all that was put so far is done. Returns at once."""
        self._tasks.put(None)


def _serve(tasks: "SimpleQueue[Task | None]") -> None:
    while _served(tasks):
        pass


def _served(tasks: "SimpleQueue[Task | None]") -> bool:
    """A function of its own: what the loop's own frame names lives on while it waits."""
    task = tasks.get()
    if task is not None:
        task()
    return task is not None
