"""Makes launches out of ops: weights loaded once, and for each dispatch a pipeline, params and a bind group."""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from doppler_core.device.gpu import Gpu
from doppler_core.device.limits import Span, sections, spans
from doppler_core.device.replay import Dispatch, Grid
from doppler_core.device.step_buffers import PER_ROW, PER_SEQUENCE, StepBuffers
from doppler_core.device.upload import Uploads
from doppler_core.plan.constants import make
from doppler_core.plan.kernels import for_one_row, signature
from doppler_core.plan.op import HOST, Constant, Op, Plan, Scalar, Section, Weight
from doppler_core.plan.signature import (
    FIRST_OPERAND,
    Bound,
    Params,
    Signature,
    bind_operands,
    kernel_params,
    override_values,
    per_sequence,
)
from doppler_core.weights.tensor import Tensor, row_bytes, tensor_bytes

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
        """One launch, or one for each run of buffers of the op's weight. values: the buffer of each value and table."""
        row = signature(op.kernel)
        single = for_one_row(row)
        pipeline, layout = self._gpu.pipeline(row, override_values(row, op), self._text)
        params = kernel_params(row, op)
        bound = list(zip(row.operands, bind_operands(row, op), strict=True))
        of_sequences = per_sequence(op)
        made = []
        for run in self._runs(op, row):
            own = {**params, **_run_params(row, run)}
            entries = [
                _entry(0, self._step.uniforms, PER_SEQUENCE if of_sequences else PER_ROW, 16),
                _entry(1, self._params_buffer(row, own)),
                *(
                    self._operand_entry(binding, op, one, values, run, operand.section)
                    for binding, (operand, one) in enumerate(bound, FIRST_OPERAND)
                ),
            ]
            group = self._gpu.device.create_bind_group(label=op.label, layout=layout, entries=entries)
            one = None
            if single is not None:
                other, _ = self._gpu.pipeline(single, override_values(single, op), self._text)
                one = Launch(op, Dispatch(op.label, other, group), single, own, of_sequences)
            made.append(Launch(op, Dispatch(op.label, pipeline, group), row, own, of_sequences, one))
        return made

    def _runs(self, op: Op, row: Signature) -> list[list[Span]]:
        """What each dispatch of the op reads of its weight: as many buffers at a time as the kernel binds."""
        if not row.sections:
            return [[]]
        weight = op.weights[0]
        found = spans(weight, self._sections[weight.name])
        return [found[first : first + row.sections] for first in range(0, len(found), row.sections)]

    def _params_buffer(self, row: Signature, params: Mapping[str, Scalar]) -> Any:
        """One buffer for all dispatches with the same params."""
        packed = pack_params(row, params)
        if packed not in self._params:
            self._params[packed] = self._gpu.uniform(len(packed))
            self._gpu.device.queue.write_buffer(self._params[packed], 0, packed)
            self.owned.append(self._params[packed])
        return self._params[packed]

    def _operand_entry(
        self, binding: int, op: Op, bound: Bound | None, values: Mapping[str, Any], run: list[Span], nth: int
    ) -> dict[str, Any]:
        """nth: which of the run's buffers the operand is; the first stands for those that it lacks."""
        match bound:
            case None:
                return _entry(binding, values[op.inputs[0].name])
            case Weight() if run and bound is op.weights[0]:
                span = run[nth if nth < len(run) else 0]
                return _span_entry(binding, self._weights[bound.name][span.buffer], bound, span)
            case Weight():
                return _entry(binding, self._weights[bound.name][0])
            case Constant():
                return _entry(binding, self._constants[bound.name])
        return _entry(binding, values[bound.name])


def _run_params(row: Signature, run: list[Span]) -> Params:
    """What a dispatch is told of the rows that it reads."""
    if not row.sections:
        return {}
    return {
        "first_row": run[0].rows.first,
        "row_count": sum(span.rows.count for span in run),
        "section_rows": run[0].rows.count,
    }


def _entry(binding: int, buffer: Any, offset: int = 0, size: int | None = None) -> dict[str, Any]:
    """An entry of a bind group: the whole buffer, or `size` bytes of it."""
    return {"binding": binding, "resource": {"buffer": buffer, "offset": offset, "size": size or buffer.size}}


def _span_entry(binding: int, buffer: Any, weight: Weight, span: Span) -> dict[str, Any]:
    """The rows of a span; a buffer is longer than its rows where these are no whole words."""
    columns = weight.shape[-1]
    offset = span.skipped * row_bytes(weight.dtype, columns)
    size = tensor_bytes(weight.dtype, (span.rows.count, columns))
    return _entry(binding, buffer, offset, min(-(-size // 16) * 16, buffer.size - offset))


def pack_params(row: Signature, params: Mapping[str, Scalar]) -> bytes:
    """The bytes of a kernel's Params struct: four-byte scalars in order, padded to 16 bytes."""
    packed = b"".join(
        struct.pack("<I", int(params[name])) if kind == "u32" else struct.pack("<f", float(params[name]))
        for name, kind in row.params.items()
    )
    return packed.ljust(max(16, -(-len(packed) // 16) * 16), b"\0")
