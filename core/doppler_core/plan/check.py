"""Checks of a whole plan, after lowering and again after a profile: the policies of the manifest, enforced.

`unresolvedKernel: error`, `unsupportedPrecision: error` and `dtypeTransition: require_cast_step` are one rule: each
op reads what an earlier op wrote, and its kernel takes each operand in the type it has.
"""

from doppler_core.errors import PlanError
from doppler_core.plan.kernels import signature
from doppler_core.plan.op import Op, Plan, Value
from doppler_core.plan.signature import bind_operands, kernel_params, override_values


def check(plan: Plan) -> Plan:
    """The plan itself; PlanError names the op, the value and both steps where two do not fit."""
    for phase, ops in plan.phases.items():
        written: dict[str, tuple[Value, Op]] = {}
        for op in ops:
            _check_inputs(phase, op, written)
            found = signature(op.kernel)
            if found.meaning != op.meaning:
                raise PlanError(f"{op.label}: {op.kernel} computes {found.meaning}, the op is {op.meaning}")
            bind_operands(found, op)
            override_values(found, op)
            kernel_params(found, op)
            if op.output.name in written:
                raise PlanError(
                    f"phase {phase}: {op.label} writes {op.output.name!r}, which was written before"
                )
            written[op.output.name] = (op.output, op)
        for output in plan.outputs[phase]:
            if output.name not in written:
                raise PlanError(f"phase {phase}: no op writes its output {output.name!r}")
    return plan


def _check_inputs(phase: str, op: Op, written: dict[str, tuple[Value, Op]]) -> None:
    for value in op.inputs:
        if value.name not in written:
            raise PlanError(f"phase {phase}: {op.label} reads {value.name!r}, which no op before it writes")
        made, maker = written[value.name]
        if made.dtype != value.dtype:
            raise PlanError(
                f"phase {phase}: {maker.label} writes {value.name!r} as {made.dtype} and {op.label} reads it as "
                f"{value.dtype}; put a cast step between them (policy dtypeTransition: require_cast_step)"
            )
        if made.shape != value.shape:
            raise PlanError(
                f"phase {phase}: {maker.label} writes {value.name!r} with shape {list(made.shape)}, {op.label} reads "
                f"{list(value.shape)}"
            )
