"""A plan bound to a GPU device: weights loaded, pipelines and bind groups made, arena allocated. Replayed many times."""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from doppler_core.device.gpu import Gpu
from doppler_core.device.limits import Section, sections
from doppler_core.device.replay import Dispatch, Grid
from doppler_core.device.upload import upload_weight, write
from doppler_core.plan.arena import Arena
from doppler_core.plan.constants import make
from doppler_core.plan.kernels import signature
from doppler_core.plan.op import Constant, Op, Plan, Scalar, Value, Weight
from doppler_core.plan.signature import (
    Bound,
    Params,
    Signature,
    bind_operands,
    kernel_params,
    override_values,
)
from doppler_core.weights.tensor import Tensor

UNIFORM_STRIDE = 256  # where a uniform may begin on every device
PER_ROW, PER_SEQUENCE = 0, UNIFORM_STRIDE  # places of the two Step uniforms: rows = T, rows = S

Text = Callable[[str], str]


@dataclass(frozen=True)
class Launch:
    """A dispatch and what its grid follows from."""

    op: Op
    dispatch: Dispatch
    signature: Signature
    params: Params
    per_sequence: bool

    def grid(self, rows: int, sequences: int) -> Grid:
        """The grid for a step of `rows` rows in `sequences` sequences."""
        return self.signature.grid(sequences if self.per_sequence else rows, sequences, self.params)


@dataclass(frozen=True)
class Program:
    """phases: launches in order. values: the buffer of each phase's values. Buffers of the step's tables besides."""

    phases: Mapping[str, tuple[Launch, ...]]
    values: Mapping[str, Mapping[str, Any]]
    step: Any
    rows: Any
    slots: Any
    buffers: tuple[Any, ...]

    @property
    def bytes(self) -> int:
        """Memory of all buffers."""
        return sum(buffer.size for buffer in self.buffers)


def bind(
    gpu: Gpu,
    plan: Plan,
    tensors: Mapping[str, Tensor],
    arenas: Mapping[str, Arena],
    max_rows: int,
    max_slots: int,
    text: Text,
    progress: Callable[[int, int], None] | None = None,
) -> Program:
    """Load the plan's weights and make everything a step needs. progress(bytes loaded, bytes in all)."""
    binder = _Binder(
        gpu, text, gpu.storage(16 * max_rows), gpu.storage(16 * max_slots), gpu.uniform(2 * UNIFORM_STRIDE)
    )
    binder.load(plan, tensors, progress)
    arena_buffers = _arena_buffers(gpu, list(arenas.values()))
    values = {
        phase: {name: arena_buffers[place] for name, place in arena.place.items()}
        for phase, arena in arenas.items()
    }
    phases = {
        phase: tuple(launch for op in ops for launch in binder.launches(op, values[phase]))
        for phase, ops in plan.phases.items()
    }
    return Program(
        phases=phases,
        values=values,
        step=binder.step,
        rows=binder.rows,
        slots=binder.slots,
        buffers=(*binder.owned, *arena_buffers),
    )


def _arena_buffers(gpu: Gpu, arenas: Sequence[Arena]) -> list[Any]:
    """One set of buffers for all phases: only one of them runs at a time."""
    count = max((len(arena.sizes) for arena in arenas), default=0)
    return [
        gpu.storage(max(arena.sizes[index] for arena in arenas if index < len(arena.sizes)))
        for index in range(count)
    ]


class _Binder:
    """Buffers made so far, while a plan is being bound."""

    def __init__(self, gpu: Gpu, text: Text, rows: Any, slots: Any, step: Any) -> None:
        self.gpu = gpu
        self.text = text
        self.rows = rows
        self.slots = slots
        self.step = step
        self.owned: list[Any] = [rows, slots, step]
        self.sections: dict[str, list[Section]] = {}
        self.params: dict[bytes, Any] = {}
        self.weights: dict[str, list[Any]] = {}
        self.constants: dict[str, Any] = {}

    def load(
        self, plan: Plan, tensors: Mapping[str, Tensor], progress: Callable[[int, int], None] | None
    ) -> None:
        weights = plan.weights()
        total, done = sum(weight.resident_bytes for weight in weights.values()), 0
        for name, weight in weights.items():
            self.sections[name] = sections(weight, self.gpu.max_binding)
            self.weights[name] = [
                upload_weight(self.gpu, weight, tensors[name], section) for section in self.sections[name]
            ]
            self.owned.extend(self.weights[name])
            done += weight.resident_bytes
            if progress is not None:
                progress(done, total)
        for op in plan.ops():
            for constant in op.constants:
                self._load_constant(constant)

    def _load_constant(self, constant: Constant) -> None:
        if constant.name not in self.constants:
            buffer = self.gpu.storage(constant.resident_bytes)
            write(self.gpu, buffer, 0, make(constant).reshape(-1).view("u1"))
            self.constants[constant.name] = buffer
            self.owned.append(buffer)

    def launches(self, op: Op, values: Mapping[str, Any]) -> list[Launch]:
        """One launch, or one for each section of the op's weight."""
        row = signature(op.kernel)
        pipeline, layout = self.gpu.pipeline(row, override_values(row, op), self.text)
        params = kernel_params(row, op)
        operands = bind_operands(row, op)
        per_sequence = bool(op.inputs) and op.inputs[0].shape[0] == "S"
        made = []
        for index, section in enumerate(self.sections[op.weights[0].name] if row.sections else [None]):
            own = dict(params)
            if section is not None:
                own |= {"first_row": section.first, "row_count": section.count}
            buffers = [
                (self.step, PER_SEQUENCE if per_sequence else PER_ROW, 16),
                (self._params_buffer(row, own), 0, None),
                *((self._buffer(op, bound, values, index), 0, None) for bound in operands),
            ]
            entries = [
                {
                    "binding": binding,
                    "resource": {"buffer": buffer, "offset": offset, "size": size or buffer.size},
                }
                for binding, (buffer, offset, size) in enumerate(buffers)
            ]
            group = self.gpu.device.create_bind_group(label=op.label, layout=layout, entries=entries)
            made.append(Launch(op, Dispatch(op.label, pipeline, group), row, own, per_sequence))
        return made

    def _params_buffer(self, row: Signature, params: Mapping[str, Scalar]) -> Any:
        """One buffer for all dispatches with the same params."""
        packed = pack_params(row, params)
        if packed not in self.params:
            self.params[packed] = self.gpu.uniform(len(packed))
            self.gpu.device.queue.write_buffer(self.params[packed], 0, packed)
            self.owned.append(self.params[packed])
        return self.params[packed]

    def _buffer(self, op: Op, bound: Bound | None, values: Mapping[str, Any], section: int) -> Any:
        match bound:
            case None:
                return values[op.inputs[0].name]
            case Weight():
                return self.weights[bound.name][section]
            case Constant():
                return self.constants[bound.name]
            case Value(name="rows", dtype="u32"):
                return self.rows
            case Value(name="slots", dtype="u32"):
                return self.slots
        return values[bound.name]


def pack_params(row: Signature, params: Mapping[str, Scalar]) -> bytes:
    """The bytes of a kernel's Params struct: four-byte scalars in order, padded to 16 bytes."""
    packed = b"".join(
        struct.pack("<I", int(params[name])) if kind == "u32" else struct.pack("<f", float(params[name]))
        for name, kind in row.params.items()
    )
    return packed + bytes(-len(packed) % 16)
