"""The memory that the engines of this process share: reserved before anything is loaded."""

import ctypes
import os
import threading
from pathlib import Path

from doppler_core.errors import LimitError

_lock = threading.RLock()
_reserved: dict[object, int] = {}


def available_bytes() -> int | None:
    """What the system could still give, or None where it does not say."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    names = getattr(os, "sysconf_names", {})
    if "SC_PHYS_PAGES" in names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def room(limit: int | None) -> int | None:
    """Bytes an engine may still reserve: `limit` less what is reserved, else 80 % of what is free."""
    if limit is not None:
        with _lock:
            return limit - sum(_reserved.values())
    free = available_bytes()
    return None if free is None else free * 8 // 10


def reserve(need: int, what: str, limit: int | None) -> object:
    """Take `need` bytes of the budget; LimitError says what there is. Give the returned key to `release`."""
    key = object()
    with _lock:  # one at a time, or two would take the same room
        left = room(limit)
        if left is not None and need > max(left, 0):
            raise LimitError(
                f"{what} needs {-(-need // 10**6):,} MB of memory and {max(left, 0) // 10**6:,} MB are left"
                + (f" of memory_limit={limit:,}" if limit is not None else " (80 % of what is free)")
                + ": close other engines, raise memory_limit, or open the model with a smaller context_length or fewer slots"
            )
        _reserved[key] = need
    return key


def give_back() -> None:
    """Return freed memory to the system, where the C library keeps it for itself (glibc); milliseconds."""
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    except (OSError, AttributeError):
        return  # another C library, which gives back by itself


def release(key: object) -> None:
    """Give a reservation back; a second time does nothing."""
    with _lock:
        _reserved.pop(key, None)
