"""One engine per key in this process, closed when the last of its leases is.

Takes a key and a function that opens, gives a lease: an Engine whose `close` gives up this share only. It knows
nothing of models.
"""

import os
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from doppler_core.engine.engine import Engine


@dataclass
class _Shared:
    # Re-entrant: the garbage collector may close a lease in a thread that is opening another.
    lock: threading.RLock = field(default_factory=threading.RLock)
    engine: "Engine | None" = None
    leases: int = 0
    waiting: int = 0


_table: dict[Hashable, _Shared] = {}
_table_lock = threading.RLock()


def share(key: Hashable, opening: Callable[[], "Engine"]) -> "Engine":
    """A lease of the engine of `key`, opened by the first who asks while the others wait for it."""
    with _table_lock:
        shared = _table.setdefault(key, _Shared())
        shared.waiting += 1
    try:
        with shared.lock:
            if shared.engine is None:
                shared.engine = opening()
            shared.leases += 1
            process = os.getpid()
            return shared.engine.lease(lambda: _give_up(key, shared, process))
    finally:
        with _table_lock:
            shared.waiting -= 1
            _forget_if_idle(key, shared)


def open_count() -> int:
    """How many engines this process holds open."""
    with _table_lock:
        return sum(shared.engine is not None for shared in _table.values())


def _give_up(key: Hashable, shared: _Shared, process: int) -> None:
    if process != os.getpid():
        return  # the engine belongs to the parent of this forked child
    with shared.lock:
        shared.leases -= 1
        if shared.leases == 0 and shared.engine is not None:
            # Under the lock: who opens the model meanwhile waits until its memory is free again.
            engine, shared.engine = shared.engine, None
            engine.close()
    with _table_lock:
        _forget_if_idle(key, shared)


def _forget_if_idle(key: Hashable, shared: _Shared) -> None:
    if shared.engine is None and not shared.waiting and _table.get(key) is shared:
        del _table[key]


def _forget_all() -> None:
    global _table, _table_lock
    _table, _table_lock = {}, threading.RLock()


# A forked child inherits no worker thread, and perhaps a lock that nobody will release: it starts with nothing open.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
