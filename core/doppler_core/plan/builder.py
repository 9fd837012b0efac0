"""Puts ops together: finds a role's kernel and weight, names the output, checks shapes. It knows no architecture."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from doppler_core.errors import PlanError
from doppler_core.plan.casts import Casts, check_precision, written_type
from doppler_core.plan.kernels import signature
from doppler_core.plan.names import TensorNames, logical_name
from doppler_core.plan.op import (
    HOST,
    Constant,
    Dim,
    Kernel,
    Op,
    Scalar,
    Section,
    Value,
    Weight,
)
from doppler_core.plan.reading import weight_for
from doppler_core.plan.steps import Resolved, Steps
from doppler_core.weights.tensor import Tensor

Params = Mapping[str, Scalar]


class Builder:
    """Collects the ops of one phase."""

    def __init__(self, steps: Steps, names: TensorNames) -> None:
        self.steps = steps
        self.names = names
        self.ops: list[Op] = []
        self._casts = Casts()

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
        if on_host:
            found = Resolved(Kernel(HOST, meaning, ""), "implied")
            written = output if isinstance(output, Value) else Value(name, output)
            read = [Weight(one.name, one.shape, one.dtype, one.dtype) for one in weights]
        else:
            found = self.steps.resolve(
                role.split(".")[0], layer, logical_name(role, layer), weights[-1].dtype if weights else ""
            )
            row = signature(found.kernel)
            if row.meaning != meaning:
                raise PlanError(
                    f"{name}: expected a kernel that computes {meaning}, but {found.kernel} computes {row.meaning}"
                )
            written = output if isinstance(output, Value) else Value(name, output, written_type(row))
            inputs, casts = self._casts.before(row, found, role, layer, inputs, written)
            self.ops += casts
            read = [
                replace(weight_for(found.kernel, one.name, one.shape, one.dtype, name), section=section)
                for one in weights
            ]
        op = Op(
            meaning=meaning,
            role=role,
            layer=layer,
            kernel=found.kernel,
            inputs=tuple(inputs),
            output=written,
            weights=tuple(read),
            constants=tuple(constants),
            params=dict(params or {}),
            origin=found.origin,
            note="; ".join(part for part in (note, found.note) if part),
            when=when,
        )
        check_precision(op, found.precision)
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
        weighted: bool = True,
    ) -> Value:
        """An RMS norm of each run of `columns` values of a row, of the whole row where that is None; times the role's weight,
        if it is `weighted`, and times `gain`."""
        run = columns or x.columns
        weights = [self.names.tensor(role, layer)] if weighted else []
        for weight in weights:
            if weight.shape != (run,):
                raise PlanError(
                    f"{weight.name}: expected shape {[run]} to normalise runs of {run} values, found {list(weight.shape)}"
                )
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
        if branch.columns != x.columns:
            raise PlanError(
                f"{x.name} and {branch.name}: expected rows of one width to add up, found {x.columns} and "
                f"{branch.columns} values"
            )
        params: dict[str, Scalar] = {"columns": x.columns}
        if gain != 1:
            params["gain"] = gain
        return self.emit("residual", role, layer, [x, branch], x.shape, params=params, note=note)

    def cast(self, x: Value) -> Value:
        """x in another type, by the `cast` step that the manifest declares outside the layers; x where it declares none."""
        if not self.steps.declares("cast"):
            return x
        return self.emit("cast", "cast", None, [x], x.shape, params={"columns": x.columns})
