"""How a kernel reads a stored tensor: as it is stored, or expanded while it is loaded."""

from doppler_core.errors import PlanError
from doppler_core.plan.kernels import signature
from doppler_core.plan.op import Kernel, Weight
from doppler_core.weights.tensor import StorageType


def weight_for(kernel: Kernel, name: str, shape: tuple[int, ...], stored: StorageType, label: str) -> Weight:
    """The weight as the kernel reads it: as stored if it can, else as f32 or f16. `label` names the op in messages.

    A packed kernel reads its own packing alone, and values are never packed while loading. f32 goes before f16
    where the kernel has both: it holds every stored type without loss.
    """
    accepted = next(
        (operand.dtypes for operand in signature(kernel).operands if operand.kind == "weight"), ()
    )
    order: tuple[StorageType, ...] = (stored, "f32", "f16")
    for dtype in order:
        if dtype in accepted:
            return Weight(name, shape, stored, dtype)
    raise PlanError(
        f"{label}: {kernel} reads weights stored as {' or '.join(accepted) or 'nothing'}, but {name} is stored as {stored}; "
        f"name a kernel for {stored}, or convert the checkpoint with this manifest"
    )
