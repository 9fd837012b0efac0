"""Guards the children of a process that used a GPU: takes note of the use, refuses it after a fork.

The native library's threads and locks do not survive a fork. In the child a new device waits for ever, releasing an
inherited object may too, and some drivers crash in their exit handlers. So a child opens no device, releases nothing,
and leaves without those handlers.
"""

import contextlib
import ctypes
import os

from doppler_core.errors import NoAdapterError

_used_by: int | None = None


def refuse_after_fork() -> None:
    """NoAdapterError in a process forked from one that had opened a GPU device."""
    if _used_by not in (None, os.getpid()):
        raise NoAdapterError(
            "this process was forked from one that used a GPU, which does not survive a fork: start workers with the "
            "'spawn' method, open the model in the workers only, or use device='numpy'"
        )


def note_gpu_use() -> None:
    """Call before a device is opened."""
    global _used_by
    if _used_by is None:
        _used_by = os.getpid()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_disarm)


def _disarm() -> None:
    from wgpu import _classes

    _classes.GPUObjectBase.__del__ = lambda _: None
    # glibc runs the last registered handler first, and hands it the exit code; elsewhere the driver's run.
    with contextlib.suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        libc.on_exit(libc._exit, None)
