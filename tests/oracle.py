"""A plan run by its meanings alone, op by op, states as plain arrays: what every executor is held against."""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from gpu_ops import read_back

from doppler_core.plan.constants import make
from doppler_core.plan.meaning import MEANINGS
from doppler_core.plan.op import ROWS, Op, Plan, State, Weight
from doppler_core.plan.operands import Operands, Tables
from doppler_core.plan.signature import per_sequence
from doppler_core.weights.storage import to_f32
from doppler_core.weights.tensor import Tensor

Values = dict[str, npt.NDArray[Any]]


def _exact(tensor: Tensor) -> npt.NDArray[np.float32]:
    return to_f32(tensor).reshape(tensor.shape)


class Oracle:
    """A plan, its weights in f32, and its states: f32 where the plan's are f16, u32 where they are. Values of f16 are rounded.

    rounded_as: a plan whose kernels' types the weights are rounded to first.
    """

    def __init__(self, plan: Plan, tensors: Mapping[str, Tensor], rounded_as: Plan | None = None) -> None:
        self.plan = plan
        types = {name: weight.dtype for name, weight in (rounded_as.weights() if rounded_as else {}).items()}
        self._weights = {
            name: read_back(tensors[name], types[name]) if name in types else _exact(tensors[name])
            for name in plan.weights()
        }
        self._constants = {constant.name: make(constant) for op in plan.ops() for constant in op.constants}
        self.states: Values = {
            name: np.zeros(state.shape, np.uint32 if state.dtype == "u32" else np.float32)
            for name, state in plan.states().items()
        }

    def run(self, phase: str, tables: Tables, active: Collection[str] = ()) -> Values:
        """Run a step; every value of it by name, and `rows` as the step leaves them."""
        values: Values = {ROWS.name: tables.rows}
        for op in self.plan.phases[phase]:
            if op.when and op.when not in active:
                continue
            result = MEANINGS[op.meaning](op.params, self._given(op, values), self._tables(op, tables))
            if op.output.dtype == "f16" and not isinstance(op.output, State):
                result = result.astype(np.float16).astype(np.float32)
            if isinstance(op.output, State):
                self.states[op.output.name] = result
            else:
                values[op.output.name] = result
            if op.output == ROWS:  # as on a device, the ops after it read what it wrote
                tables = dataclasses.replace(tables, rows=result)
        return values

    def _given(self, op: Op, values: Values) -> Operands:
        return Operands(
            [self.states[one.name] if isinstance(one, State) else values[one.name] for one in op.inputs],
            [self._rows(weight) for weight in op.weights],
            [self._constants[constant.name] for constant in op.constants],
        )

    def _rows(self, weight: Weight) -> npt.NDArray[np.float32]:
        """Those that the op reads."""
        section = weight.section
        values: npt.NDArray[np.float32] = self._weights[weight.name]
        return values if section is None else values[section.first : section.first + section.count]

    @staticmethod
    def _tables(op: Op, tables: Tables) -> Tables:
        return tables.of_sequences() if per_sequence(op) else tables
