"""How many threads NumPy's matrix products use, which is what everything beside them uses too."""

import functools
import os

import numpy as np
import threadpoolctl


@functools.cache
def blas_threads() -> int:
    """Threads of the BLAS behind NumPy (OMP_NUM_THREADS and its kin are heeded); the processors where it hides them."""
    np.dot(np.zeros(1), np.zeros(1))  # the library is loaded with NumPy, and only a loaded one is listed
    counts = [pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
    return max(counts, default=os.cpu_count() or 1)
