"""The table of kernels: one signature for each entry point in wgsl/. A test checks each row against its WGSL."""

import difflib
from collections.abc import Mapping

from doppler_core.errors import PlanError
from doppler_core.plan.kernel_tables import attention, canvas, experts, f16, matmul, sampling, small_ops
from doppler_core.plan.op import Kernel
from doppler_core.plan.signature import Signature

_F32 = (
    *small_ops.SIGNATURES,
    *matmul.SIGNATURES,
    *attention.SIGNATURES,
    *experts.SIGNATURES,
    *sampling.SIGNATURES,
    *canvas.SIGNATURES,
)
_SIGNATURES = (*_F32, *f16.twins(_F32), *f16.CASTS)

SIGNATURES: Mapping[tuple[str, str], Signature] = {(row.file, row.entry): row for row in _SIGNATURES}


def for_one_row(row: Signature) -> Signature | None:
    """The signature of the entry that is run in place of another where the op has one row, if there is one."""
    return None if row.for_one is None else SIGNATURES[row.file, row.for_one]


def signature(kernel: Kernel) -> Signature:
    """The signature of a kernel a manifest or a profile names. PlanError with the nearest names if there is none."""
    found = SIGNATURES.get((kernel.file, kernel.entry))
    if found is None:
        known = [str(row) for row in _SIGNATURES]
        near = difflib.get_close_matches(str(kernel), known, 3, 0.4) or sorted(known)
        raise PlanError(f"no kernel {kernel}: expected one of wgsl/'s, the nearest are {', '.join(near)}")
    return found
