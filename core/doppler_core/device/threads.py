"""How many threads NumPy's matrix products use, and a way to have one each while this process runs several."""

import contextlib
import functools
import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import threadpoolctl


@functools.cache
def blas_controller() -> threadpoolctl.ThreadpoolController:
    """The BLAS behind NumPy, whose threads can be limited for a while."""
    np.dot(np.zeros(1), np.zeros(1))  # the library is loaded with NumPy, and only a loaded one is listed
    return threadpoolctl.ThreadpoolController().select(user_api="blas")


@functools.cache
def blas_threads() -> int:
    """Threads of that BLAS (OMP_NUM_THREADS and its kin are heeded); the processors where it hides them."""
    return max((pool["num_threads"] for pool in blas_controller().info()), default=os.cpu_count() or 1)


_lock = threading.Lock()
_users = 0
_limit: Any = None


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Meanwhile BLAS computes in the thread that calls it: its own threads would wait for those of this process.

    The number is the whole process's, so that it comes back when the last of several users has left.
    """
    global _users, _limit
    with _lock:
        if not _users:
            _limit = blas_controller().limit(limits=1)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                _limit.restore_original_limits()
                _limit = None
