"""The types of activations between ops: what a kernel writes, what it reads, and the casts that are put between.

A value has the type that its kernel writes. Where another kernel reads it in another type, a cast is put before that, an
op of its own, if either of the two ops is implied, or the manifest names the types of either, or either is f32 in every
session (activations.WIDE). Between two other steps the manifest has to declare the cast (policy `dtypeTransition`).
"""

from collections.abc import Sequence

from doppler_core.errors import PlanError
from doppler_core.manifest.digest import kernel_digest
from doppler_core.manifest.execution import Precision
from doppler_core.plan.activations import WIDE
from doppler_core.plan.op import Kernel, Op, State, Value, ValueType
from doppler_core.plan.signature import Operand, Signature
from doppler_core.plan.steps import Resolved

FLOATS: tuple[ValueType, ...] = ("f16", "f32")


def written_type(row: Signature) -> ValueType:
    """The type of activations that a kernel writes."""
    output = next(operand for operand in row.operands if operand.kind == "output")
    return "f16" if output.dtypes == ("f16",) else "f32"


class Casts:
    """The casts of one phase: a value is cast once for all who read it so."""

    def __init__(self) -> None:
        self._free: set[str] = set()
        self._made: dict[str, Value] = {}

    def before(
        self,
        row: Signature,
        found: Resolved,
        role: str,
        layer: int | None,
        inputs: Sequence[Value],
        output: Value,
    ) -> tuple[list[Value], list[Op]]:
        """What an op of this kernel reads, and the casts that have to stand before it.

        An input that may not be cast is left as it is: plan.check says what does not fit.
        """
        free = found.origin == "implied" or found.named is not None or role in WIDE
        if free:
            self._free.add(output.name)
        read, ops = [], []
        operands = iter([operand for operand in row.operands if operand.kind == "input"])
        for value in inputs:
            operand = None if value == output else next(operands, None)
            if operand is not None and _differ(value, operand) and (free or value.name in self._free):
                op = _cast(value, operand, role, layer)
                if op.output.name not in self._made:
                    self._made[op.output.name] = op.output
                    ops.append(op)
                value = op.output
            read.append(value)
        return read, ops


def _differ(value: Value, operand: Operand) -> bool:
    """Whether it is an activation that the kernel reads in the other type."""
    activation = value.dtype in FLOATS and not isinstance(value, State)
    return activation and value.dtype not in operand.dtypes and operand.dtypes[0] in FLOATS


def _cast(value: Value, operand: Operand, role: str, layer: int | None) -> Op:
    dtype: ValueType = "f16" if value.dtype == "f32" else "f32"
    file = f"cast_{value.dtype}_to_{dtype}.wgsl"
    return Op(
        meaning="cast",
        role="cast",
        layer=layer,
        kernel=Kernel(file, "main", kernel_digest(file, "main")),
        inputs=(value,),
        output=Value(f"{value.name}.{dtype}", value.shape, dtype),
        params={"columns": value.columns},
        origin="implied",
        note=f"{role} reads {dtype}",
    )


def check_precision(op: Op, precision: Precision | None) -> None:
    """The types that the manifest uses a step's kernel with against those of its operands; PlanError names both."""
    if precision is None:
        return
    read = [value for value in op.inputs if not isinstance(value, State)]
    states = [value for value in (*op.inputs, op.output) if isinstance(value, State)]
    for field, said, values in (
        ("inputDtype", precision.input_dtype or precision.activation_dtype, read),
        ("outputDtype", precision.output_dtype or precision.activation_dtype, [op.output]),
        ("kvDtype", precision.kv_dtype, states),
    ):
        for value in values:
            if said is not None and value.dtype in FLOATS and value.dtype != said:
                raise PlanError(
                    f"step {op.label}: its kernel's precision.{field} is {said}, and {value.name!r} is {value.dtype}; "
                    "name a kernel for that type, or change the type (session.compute, session.kvcache)"
                )
