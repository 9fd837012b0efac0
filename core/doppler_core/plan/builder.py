"""Puts ops together: finds a role's kernel and weight, names the output, checks shapes. It knows no architecture."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from doppler_core.errors import PlanError
from doppler_core.plan.kernels import signature
from doppler_core.plan.names import TensorNames, logical_name
from doppler_core.plan.op import (
    HOST,
    Constant,
    Dim,
    Kernel,
    Op,
    Origin,
    Scalar,
    Section,
    State,
    Value,
    Weight,
)
from doppler_core.plan.reading import weight_for
from doppler_core.plan.steps import Steps
from doppler_core.weights.tensor import Tensor

Params = Mapping[str, Scalar]


class Builder:
    """Collects the ops of one phase."""

    def __init__(self, steps: Steps, names: TensorNames) -> None:
        self.steps = steps
        self.names = names
        self.ops: list[Op] = []

    def emit(
        self,
        meaning: str,
        role: str,
        layer: int | None,
        inputs: Sequence[Value],
        output: tuple[Dim, ...] | Value,
        *,
        weights: Sequence[Tensor] = (),
        constants: Sequence[Constant] = (),
        params: Params | None = None,
        note: str = "",
        when: str = "",
        on_host: bool = False,
        section: Section | None = None,
    ) -> Value:
        """Append an op and give its output: a value of its own, or of a shape, under the role's name.

        on_host: the executor computes the op itself, from the step's tables and the file. section: the rows of its
        weights that it reads.
        """
        name = role if layer is None else f"layers.{layer}.{role}"
        written = output if isinstance(output, Value) else Value(name, output)
        origin: Origin = "implied"
        if on_host:
            kernel, kernel_note = Kernel(HOST, meaning, ""), ""
            read = [Weight(one.name, one.shape, one.dtype, one.dtype) for one in weights]
        else:
            kernel, origin, kernel_note = self.steps.resolve(
                role.split(".")[0], layer, logical_name(role, layer), weights[-1].dtype if weights else ""
            )
            if (found := signature(kernel).meaning) != meaning:
                raise PlanError(
                    f"{name}: expected a kernel that computes {meaning}, but {kernel} computes {found}"
                )
            read = [
                replace(weight_for(kernel, one.name, one.shape, one.dtype, name), section=section)
                for one in weights
            ]
        op = Op(
            meaning=meaning,
            role=role,
            layer=layer,
            kernel=kernel,
            inputs=tuple(inputs),
            output=written,
            weights=tuple(read),
            constants=tuple(constants),
            params=dict(params or {}),
            origin=origin,
            note="; ".join(part for part in (note, kernel_note) if part),
            when=when,
        )
        self._check_precision(op)
        self.ops.append(op)
        return written

    def norm(
        self,
        role: str,
        layer: int | None,
        x: Value,
        params: Params,
        note: str = "",
        columns: int | None = None,
        gain: float = 1.0,
    ) -> Value:
        """An RMS norm of each run of as many values as its weight has, or of `columns` values without a weight; times
        `gain`."""
        weights = [] if columns else [self.names.tensor(role, layer)]
        for weight in weights:
            if len(weight.shape) != 1:
                raise PlanError(
                    f"{weight.name}: expected the one axis of a norm's weight, found shape {list(weight.shape)}"
                )
        run = columns or weights[0].shape[0]
        if x.columns % run:
            name = weights[0].name if weights else role
            raise PlanError(f"{name}: {run} values can't normalise rows of {x.columns}")
        return self.emit(
            "rmsnorm",
            role,
            layer,
            [x],
            x.shape,
            weights=weights,
            params={**params, "columns": run, **({"gain": gain} if gain != 1 else {})},
            note=note,
        )

    def matmul(
        self,
        role: str,
        layer: int | None,
        x: Value,
        weight: Tensor | None = None,
        note: str = "",
        output: Value | None = None,
        section: Section | None = None,
    ) -> Value:
        """x W^T with the role's weight, or with the one given; into a value of the role's name, or into the one given.

        section: the rows of the weight that make the columns.
        """
        weight = weight or self.names.tensor(role, layer)
        if len(weight.shape) != 2 or weight.shape[1] != x.columns:
            raise PlanError(
                f"{weight.name}: expected shape [outputs, {x.columns}] for rows of {x.columns} values, "
                f"found {list(weight.shape)}"
            )
        columns, inner = (section.count if section else weight.shape[0]), weight.shape[1]
        return self.emit(
            "matmul",
            role,
            layer,
            [x],
            output or (x.shape[0], columns),
            weights=[weight],
            params={"columns": columns, "inner": inner},
            note=note,
            section=section,
        )

    def residual(
        self, role: str, layer: int | None, x: Value, branch: Value, gain: float = 1.0, note: str = ""
    ) -> Value:
        """(x + branch) * gain."""
        params: dict[str, Scalar] = {"columns": x.columns}
        if gain != 1:
            params["gain"] = gain
        return self.emit("residual", role, layer, [x, branch], x.shape, params=params, note=note)

    def _check_precision(self, op: Op) -> None:
        """The types a step's kernel is declared for against those of its operands; PlanError names both."""
        precision = self.steps.precision(op.role, op.layer)
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
                if said is not None and value.dtype in ("f16", "f32") and value.dtype != said:
                    raise PlanError(
                        f"step {op.label}: its kernel's precision.{field} is {said}, and {value.name!r} is {value.dtype}; "
                        "name a kernel for that type, or change the type (session.compute, session.kvcache)"
                    )
