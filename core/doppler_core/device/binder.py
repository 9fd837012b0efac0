"""Makes launches out of ops: weights loaded once, and for each dispatch a pipeline, params and a bind group."""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from doppler_core.device.gpu import Gpu
from doppler_core.device.limits import sections
from doppler_core.device.replay import Dispatch, Grid
from doppler_core.device.step_buffers import PER_ROW, PER_SEQUENCE, StepBuffers
from doppler_core.device.upload import Uploads
from doppler_core.plan.constants import make
from doppler_core.plan.kernels import for_one_row, signature
from doppler_core.plan.op import HOST, Constant, Op, Plan, Scalar, Section, Weight
from doppler_core.plan.signature import (
    Bound,
    Params,
    Signature,
    bind_operands,
    kernel_params,
    override_values,
    per_sequence,
)
from doppler_core.weights.tensor import Tensor

Text = Callable[[str], str]


@dataclass(frozen=True)
class Launch:
    """A dispatch and what its grid follows from. one: what is launched in its place where the op has one row."""

    op: Op
    dispatch: Dispatch
    signature: Signature
    params: Params
    per_sequence: bool
    one: "Launch | None" = None

    def at(self, rows: int, sequences: int) -> tuple[Dispatch, Grid]:
        """What is dispatched in a step of `rows` rows in `sequences` sequences, and its grid."""
        own = sequences if self.per_sequence else rows
        if own == 1 and self.one is not None:
            return self.one.at(rows, sequences)
        return self.dispatch, self.signature.grid(own, sequences, self.params)


class Binder:
    """Buffers made so far, while a plan is being bound. owned: weights, constants and params."""

    def __init__(self, gpu: Gpu, text: Text, step: StepBuffers) -> None:
        self.owned: list[Any] = []
        self._gpu = gpu
        self._text = text
        self._step = step
        self._sections: dict[str, list[Section]] = {}
        self._params: dict[bytes, Any] = {}
        self._weights: dict[str, list[Any]] = {}
        self._constants: dict[str, Any] = {}

    def load(
        self, plan: Plan, tensors: Mapping[str, Tensor], progress: Callable[[int, int], None] | None
    ) -> None:
        """Upload the weights that kernels read, and the constants. progress(bytes loaded, bytes in all)."""
        weights = {
            weight.name: weight for op in plan.ops() if op.kernel.file != HOST for weight in op.weights
        }
        uploads = Uploads(self._gpu)
        total, done = sum(weight.resident_bytes for weight in weights.values()), 0
        for name, weight in weights.items():
            self._sections[name] = sections(weight, self._gpu.max_binding)
            self._weights[name] = [
                uploads.weight(weight, tensors[name], section) for section in self._sections[name]
            ]
            self.owned.extend(self._weights[name])
            done += weight.resident_bytes
            if progress is not None:
                progress(done, total)
        for name, constant in plan.constants().items():
            buffer = self._gpu.storage(constant.resident_bytes)
            uploads.write(buffer, 0, make(constant).reshape(-1).view("u1"))
            self._constants[name] = buffer
            self.owned.append(buffer)
        uploads.finish()

    def launches(self, op: Op, values: Mapping[str, Any]) -> list[Launch]:
        """One launch, or one for each run of sections of the op's weight. values: the buffer of each value and table."""
        row = signature(op.kernel)
        single = for_one_row(row)
        pipeline, layout = self._gpu.pipeline(row, override_values(row, op), self._text)
        params = kernel_params(row, op)
        bound = list(zip(row.operands, bind_operands(row, op), strict=True))
        of_sequences = per_sequence(op)
        made = []
        for first in range(0, len(self._sections[op.weights[0].name]), row.sections) if row.sections else [0]:
            own = {**params, **self._section_params(op, row, first)}
            buffers = [
                (self._step.uniforms, PER_SEQUENCE if of_sequences else PER_ROW, 16),
                (self._params_buffer(row, own), 0, None),
                *(
                    (self._buffer(op, one, values, first + operand.section), 0, None)
                    for operand, one in bound
                ),
            ]
            entries = [
                {
                    "binding": binding,
                    "resource": {"buffer": buffer, "offset": offset, "size": size or buffer.size},
                }
                for binding, (buffer, offset, size) in enumerate(buffers)
            ]
            group = self._gpu.device.create_bind_group(label=op.label, layout=layout, entries=entries)
            one = None
            if single is not None:
                other, _ = self._gpu.pipeline(single, override_values(single, op), self._text)
                one = Launch(op, Dispatch(op.label, other, group), single, own, of_sequences)
            made.append(Launch(op, Dispatch(op.label, pipeline, group), row, own, of_sequences, one))
        return made

    def _section_params(self, op: Op, row: Signature, first: int) -> Params:
        """What a dispatch on the sections from `first` on is told of them."""
        if not row.sections:
            return {}
        mine = self._sections[op.weights[0].name][first : first + row.sections]
        return {
            "first_row": mine[0].first,
            "row_count": sum(section.count for section in mine),
            "section_rows": mine[0].count,
        }

    def _params_buffer(self, row: Signature, params: Mapping[str, Scalar]) -> Any:
        """One buffer for all dispatches with the same params."""
        packed = pack_params(row, params)
        if packed not in self._params:
            self._params[packed] = self._gpu.uniform(len(packed))
            self._gpu.device.queue.write_buffer(self._params[packed], 0, packed)
            self.owned.append(self._params[packed])
        return self._params[packed]

    def _buffer(self, op: Op, bound: Bound | None, values: Mapping[str, Any], section: int) -> Any:
        match bound:
            case None:
                return values[op.inputs[0].name]
            case Weight():
                there = self._weights[bound.name]
                return there[section if section < len(there) else 0]
            case Constant():
                return self._constants[bound.name]
        return values[bound.name]


def pack_params(row: Signature, params: Mapping[str, Scalar]) -> bytes:
    """The bytes of a kernel's Params struct: four-byte scalars in order, padded to 16 bytes."""
    packed = b"".join(
        struct.pack("<I", int(params[name])) if kind == "u32" else struct.pack("<f", float(params[name]))
        for name, kind in row.params.items()
    )
    return packed.ljust(max(16, -(-len(packed) // 16) * 16), b"\0")
