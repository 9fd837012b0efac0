"""How many threads NumPy's matrix products use, which is what everything beside them uses too."""

import functools
import os

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
