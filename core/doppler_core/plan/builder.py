"""Puts ops together: finds a role's kernel and weight, names the output, checks shapes. It knows no architecture."""

from collections.abc import Mapping, Sequence

from doppler_core.errors import PlanError
from doppler_core.plan.kernels import signature
from doppler_core.plan.names import TensorNames, logical_name
from doppler_core.plan.op import Constant, Dim, Op, Scalar, Value
from doppler_core.plan.reading import weight_for
from doppler_core.plan.steps import Steps
from doppler_core.weights.tensor import Tensor


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
        shape: tuple[Dim, ...],
        *,
        weights: Sequence[Tensor] = (),
        constants: Sequence[Constant] = (),
        params: Mapping[str, Scalar] | None = None,
        note: str = "",
    ) -> Value:
        """Append an op and give its output."""
        kernel, origin, kernel_note = self.steps.resolve(role.split(".")[0], layer, logical_name(role, layer))
        name = role if layer is None else f"layers.{layer}.{role}"
        output = Value(name, shape)
        found = signature(kernel)
        if found.meaning != meaning:
            raise PlanError(
                f"{name}: expected a kernel that computes {meaning}, but {kernel} computes {found.meaning}"
            )
        self.ops.append(
            Op(
                meaning=meaning,
                role=role,
                layer=layer,
                kernel=kernel,
                inputs=tuple(inputs),
                output=output,
                weights=tuple(weight_for(kernel, one.name, one.shape, one.dtype, name) for one in weights),
                constants=tuple(constants),
                params=dict(params or {}),
                origin=origin,
                note="; ".join(part for part in (note, kernel_note) if part),
            )
        )
        return output

    def norm(
        self, role: str, layer: int | None, x: Value, params: Mapping[str, Scalar], note: str = ""
    ) -> Value:
        """An RMS norm of each run of as many values as its weight has."""
        weight = self.names.tensor(role, layer)
        if len(weight.shape) != 1:
            raise PlanError(
                f"{weight.name}: expected the one axis of a norm's weight, found shape {list(weight.shape)}"
            )
        columns = weight.shape[0]
        if x.columns % columns:
            raise PlanError(f"{weight.name}: {columns} values can't normalise rows of {x.columns}")
        return self.emit(
            "rmsnorm",
            role,
            layer,
            [x],
            x.shape,
            weights=[weight],
            params={**params, "columns": columns},
            note=note,
        )

    def matmul(
        self, role: str, layer: int | None, x: Value, weight: Tensor | None = None, note: str = ""
    ) -> Value:
        """x W^T with the role's weight, or with the one given."""
        weight = weight or self.names.tensor(role, layer)
        if len(weight.shape) != 2 or weight.shape[1] != x.columns:
            raise PlanError(
                f"{weight.name}: expected shape [outputs, {x.columns}] for rows of {x.columns} values, "
                f"found {list(weight.shape)}"
            )
        columns, inner = weight.shape
        return self.emit(
            "matmul",
            role,
            layer,
            [x],
            (x.shape[0], columns),
            weights=[weight],
            params={"columns": columns, "inner": inner},
            note=note,
        )
