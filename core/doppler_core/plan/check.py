"""Checks of a whole plan, after lowering and again after a profile: the policies of the manifest, enforced.

`unresolvedKernel: error`, `unsupportedPrecision: error` and `dtypeTransition: require_cast_step` are one rule: each
op reads what an earlier op wrote, and its kernel takes each operand in the type it has.
"""

from doppler_core.errors import PlanError
from doppler_core.plan.kernels import signature
from doppler_core.plan.op import HOST, ROWS, Op, Plan, State, Value
from doppler_core.plan.signature import bind_operands, kernel_params, override_values


def check(plan: Plan) -> Plan:
    """The plan itself; PlanError names the op, the value and both steps where two do not fit."""
    _check_states(plan)
    _check_weights(plan)
    for phase, ops in plan.phases.items():
        written: dict[str, tuple[Value, list[Op]]] = {}
        for op in ops:
            _check_inputs(phase, op, written)
            _check_kernel(op)
            _check_output(phase, op, written)
        for output in plan.outputs[phase]:
            if output.name not in written:
                raise PlanError(f"phase {phase}: no op writes its output {output.name!r}")
    return plan


def _outlives_steps(value: Value) -> bool:
    """Whether a value has a place of its own: a state, or the rows that the next step runs on."""
    return isinstance(value, State) or value == ROWS


def _check_inputs(phase: str, op: Op, written: dict[str, tuple[Value, list[Op]]]) -> None:
    for value in op.inputs:
        if _outlives_steps(value):
            continue
        if value.name not in written:
            raise PlanError(f"phase {phase}: {op.label} reads {value.name!r}, which no op before it writes")
        made, makers = written[value.name]
        if made.dtype != value.dtype:
            raise PlanError(
                f"phase {phase}: {makers[0].label} writes {value.name!r} as {made.dtype} and {op.label} reads it as "
                f"{value.dtype}; put a cast step between them (policy dtypeTransition: require_cast_step)"
            )
        if made.shape != value.shape:
            raise PlanError(
                f"phase {phase}: {makers[0].label} writes {value.name!r} with shape {list(made.shape)}, {op.label} reads "
                f"{list(value.shape)}"
            )


def _check_kernel(op: Op) -> None:
    if op.kernel.file == HOST:
        return
    found = signature(op.kernel)
    if found.meaning != op.meaning:
        raise PlanError(f"{op.label}: {op.kernel} computes {found.meaning}, the op is {op.meaning}")
    bind_operands(found, op)
    override_values(found, op)
    kernel_params(found, op)


def _check_output(phase: str, op: Op, written: dict[str, tuple[Value, list[Op]]]) -> None:
    """A value is written once in a step: by one op, or by ops of which a step asks for one alone."""
    if _outlives_steps(op.output):
        return
    made, makers = written.setdefault(op.output.name, (op.output, []))
    conditions = {maker.when for maker in makers} | {op.when}
    if makers and ("" in conditions or len(conditions) != len(makers) + 1 or made != op.output):
        raise PlanError(f"phase {phase}: {op.label} writes {op.output.name!r}, which was written before")
    makers.append(op)


def _check_states(plan: Plan) -> None:
    """One name is one state, in all phases."""
    states: dict[str, State] = {}
    for op in plan.ops():
        for value in (*op.inputs, op.output):
            if isinstance(value, State) and states.setdefault(value.name, value) != value:
                raise PlanError(
                    f"{op.label}: state {value.name!r} is {value.dtype}{list(value.shape)} here and "
                    f"{states[value.name].dtype}{list(states[value.name].shape)} in another op"
                )


def _check_weights(plan: Plan) -> None:
    """A tensor is loaded once, in one type (plan.reading.agreed)."""
    types: dict[str, str] = {}
    for op in plan.ops():
        for weight in op.weights:
            if types.setdefault(weight.name, weight.dtype) != weight.dtype:
                raise PlanError(
                    f"{op.label} reads {weight.name} as {weight.dtype}, an op before it as {types[weight.name]}; name kernels "
                    "that read it in one type"
                )
