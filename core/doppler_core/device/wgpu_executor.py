"""The WebGPU executor: a plan on a GPU device. Import it only where a GPU is used: it loads the native library."""

import gc
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from doppler_core.device.adapters import GpuAdapter
from doppler_core.device.binder import Launch
from doppler_core.device.executor import StepTables
from doppler_core.device.gpu import Gpu, open_gpu
from doppler_core.device.gpu_errors import explained
from doppler_core.device.host_ops import gathered
from doppler_core.device.limits import check_plan, needed_features
from doppler_core.device.program import Program, bind
from doppler_core.device.readback import Readback
from doppler_core.device.replay import Dispatch, Grid, best_encoder
from doppler_core.device.states import DTYPES
from doppler_core.device.step_check import bounds, check_group, check_step, running
from doppler_core.device.step_left import Left, advanced, left_by
from doppler_core.errors import DeviceLostError, InputError
from doppler_core.manifest.kernel_text import kernel_text
from doppler_core.plan.op import LAST, ROWS, Op, Plan, Value
from doppler_core.weights.tensor import Tensor

Rows = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float32]

_SCHEDULES = 64  # schedules kept: a decode loop replays a handful, prefill chunks come in any size


def open_wgpu(
    plan: Plan,
    tensors: Mapping[str, Tensor],
    adapter: GpuAdapter,
    *,
    max_rows: int,
    max_slots: int,
    text: Callable[[str], str] = kernel_text,
    default_limits: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> "WgpuExecutor":
    """Bind a plan to a GPU adapter for steps of up to `max_rows` rows in `max_slots` sequences.

    text: gives a kernel's WGSL, includes expanded. default_limits: open the device with WebGPU's default limits
    instead of the adapter's own. progress(bytes loaded, bytes in all).
    LimitError before anything is loaded, ShaderError for a kernel that does not compile.
    """
    gpu = open_gpu(adapter, features=needed_features(plan), default_limits=default_limits)
    try:
        return bind_wgpu(
            plan, tensors, gpu, max_rows=max_rows, max_slots=max_slots, text=text, progress=progress
        )
    except BaseException:
        gpu.device.destroy()
        raise


def bind_wgpu(
    plan: Plan,
    tensors: Mapping[str, Tensor],
    gpu: Gpu,
    *,
    max_rows: int,
    max_slots: int,
    text: Callable[[str], str] = kernel_text,
    progress: Callable[[int, int], None] | None = None,
) -> "WgpuExecutor":
    """The same on a device that is already open; closing the executor destroys it."""
    arenas = check_plan(plan, gpu.ability, max_rows, max_slots)
    with explained(f"binding {plan.model} to {gpu.adapter}"):
        program = bind(gpu, plan, tensors, arenas, max_rows, max_slots, text, progress)
    return WgpuExecutor(gpu, plan, program, max_rows, max_slots)


@dataclass(frozen=True)
class _Schedule:
    """What a step of one size runs. always: how many of the first dispatches are of ops that every step runs.
    outputs: those of the phase that an op of it writes."""

    ops: tuple[Op, ...]
    dispatches: Sequence[Dispatch]
    grids: Sequence[Grid]
    always: int
    outputs: tuple[Value, ...]


class WgpuTicket:
    """Steps under way on a GPU."""

    def __init__(self, read: Callable[[], Mapping[str, npt.NDArray[Any]]]) -> None:
        self._read: Callable[[], Mapping[str, npt.NDArray[Any]]] | None = read
        self._found: Mapping[str, npt.NDArray[Any]] = {}

    def ready(self) -> bool:
        """Whether the result has been asked for."""
        return self._read is None

    def result(self) -> Mapping[str, npt.NDArray[Any]]:
        """Wait for the steps; the phase's outputs by name, [steps, S or T, columns]."""
        if self._read is not None:
            self._found, self._read = self._read(), None
        return self._found


class WgpuExecutor:
    """An Executor (device.executor) on a GPU."""

    def __init__(self, gpu: Gpu, plan: Plan, program: Program, max_rows: int, max_slots: int) -> None:
        self.max_rows = max_rows
        self.max_slots = max_slots
        self.memory_bytes = program.bytes
        self.device = f"wgpu {gpu.adapter.name} ({gpu.adapter.backend})"
        self._gpu = gpu
        self._plan = plan
        self._program: Program | None = program
        self._bounds = bounds(plan, max_rows, max_slots)
        self._encode = best_encoder(next(iter(program.phases.values()))[0].dispatch)
        self._readback = Readback(gpu)
        self._schedules: dict[tuple[object, ...], _Schedule] = {}
        self._left: Left | None = None

    def submit(
        self,
        phase: str,
        tables: StepTables | None,
        steps: int = 1,
        meanwhile: Callable[[], None] | None = None,
    ) -> WgpuTicket:
        """Start `steps` steps of a phase and do not wait for them: one submit and one compute pass a step, two where
        the host has something to do meanwhile."""
        program, goes_on = self._open(), tables is None
        if tables is None:
            tables = left_by(self._left, phase)
        check_step(self._bounds[phase], tables)
        schedule = self._schedule(phase, tables)
        check_group(self._bounds[phase], tables, schedule.ops, steps, stops_within=meanwhile is not None)
        self._left = None
        rows, sequences = len(tables.rows), len(tables.slots)
        sizes = [value.bytes(rows, sequences) for value in schedule.outputs]
        with explained(f"running {phase} of {self._plan.model}"):
            if not goes_on:
                self._write_step(program, phase, tables)
            staging = self._readback.take(steps * sum(sizes))
            submission, at = None, 0
            for step in range(steps):
                encoder = self._gpu.device.create_command_encoder()
                if step or goes_on:
                    # One row a slot, so that the rows which the step before left are each slot's last as well.
                    there = program.step.tables
                    encoder.copy_buffer_to_buffer(
                        there[ROWS.name], 0, there[LAST.name], 0, LAST.bytes(rows, rows)
                    )
                begun = 0
                if meanwhile is not None and schedule.always < len(schedule.dispatches):
                    begun = schedule.always
                    self._encode_pass(encoder, schedule.dispatches[:begun], schedule.grids[:begun])
                    self._readback.submit(encoder.finish())
                    meanwhile()
                    encoder = self._gpu.device.create_command_encoder()
                self._encode_pass(encoder, schedule.dispatches[begun:], schedule.grids[begun:])
                for value, size in zip(schedule.outputs, sizes, strict=True):
                    encoder.copy_buffer_to_buffer(program.values[phase][value.name], 0, staging, at, size)
                    at += size
                submission = self._readback.submit(encoder.finish())
        self._left = advanced(phase, tables, schedule.ops, steps)

        def read() -> dict[str, npt.NDArray[Any]]:
            self._open()
            with explained(f"running {phase} of {self._plan.model}"):
                data = self._readback.read(staging, at, submission)
            return _split(data.reshape(steps, sum(sizes)), schedule.outputs, sizes)

        return WgpuTicket(read)

    def run(self, phase: str, rows: Rows, slots: Rows) -> Floats:
        """Run a phase on the step's tables; its output value, f32."""
        found = self.submit(phase, StepTables(rows, slots)).result()
        output: Floats = found[self._plan.outputs[phase][0].name][0]
        return output

    def capture(
        self,
        phase: str,
        rows: Rows,
        slots: Rows,
        names: Collection[str],
        sampling: Rows | None = None,
        active: frozenset[str] = frozenset(),
    ) -> dict[str, npt.NDArray[Any]]:
        """Run a phase op by op and give the values of `names` as they were when their op had run."""
        program, tables = self._open(), StepTables(rows, slots, sampling, active)
        check_step(self._bounds[phase], tables)
        chosen = running(phase, self._plan.phases[phase], active)
        unknown = sorted(set(names) - {op.output.name for op in chosen})
        if unknown:
            raise InputError(f"phase {phase!r} of {self._plan.model} has no values {unknown}")
        found: dict[str, npt.NDArray[Any]] = {}
        self._left = None
        with explained(f"running {phase} of {self._plan.model}"):
            self._write_step(program, phase, tables)
        for op in chosen:
            with explained(f"running {phase} of {self._plan.model} up to {op.label}"):
                launches = [launch for launch in program.phases[phase] if launch.op is op]
                self._run(launches, len(rows), len(slots))
                if op.output.name in names:
                    size = op.output.bytes(len(rows), len(slots))
                    whole = -(-size // 4) * 4  # WebGPU copies words, and f16 may fill half of the last
                    data = self._gpu.device.queue.read_buffer(program.values[phase][op.output.name], 0, whole)
                    found[op.output.name] = _typed(np.frombuffer(data, np.uint8, size), op.output)
        return found

    def write_state(self, name: str, row: int, values: npt.NDArray[Any]) -> None:
        """Put rows of the state's dtype into a state, from `row` on, after every step submitted so far."""
        with explained(f"writing state {name!r} of {self._plan.model}"):
            self._open().states.write(name, row, values)

    def read_state(self, name: str, row: int, count: int) -> npt.NDArray[Any]:
        """Rows of a state after every step submitted so far, in the state's dtype."""
        with explained(f"reading state {name!r} of {self._plan.model}"):
            return self._open().states.read(name, row, count)

    def copy_state(self, name: str, source: int, target: int, count: int) -> None:
        """Copy `count` rows of a state to others, on the device, after every step submitted so far."""
        with explained(f"copying state {name!r} of {self._plan.model}"):
            self._open().states.copy(name, source, target, count)

    def close(self) -> None:
        """Give memory and device back. A second call does nothing."""
        program, self._program = self._program, None
        if program is not None:
            for buffer in program.buffers:
                buffer.destroy()
            self._gpu.device.destroy()
            # A device and its queue hold each other: only the collector frees them, and with them the driver's memory.
            self._schedules.clear()
            del program, self._gpu, self._encode, self._readback
            gc.collect()

    def _open(self) -> Program:
        if self._program is None:
            raise DeviceLostError(f"{self._plan.model} on {self.device} was closed: open it again")
        return self._program

    def _schedule(self, phase: str, tables: StepTables) -> _Schedule:
        key = (phase, tables.active, len(tables.rows), len(tables.slots))
        if key not in self._schedules:
            if len(self._schedules) >= _SCHEDULES:
                self._schedules.clear()
            self._schedules[key] = self._make_schedule(phase, tables)
        return self._schedules[key]

    def _make_schedule(self, phase: str, tables: StepTables) -> _Schedule:
        ops = running(phase, self._plan.phases[phase], tables.active)
        chosen = set(map(id, ops))
        always = {id(op) for op in itertools.takewhile(lambda op: not op.when, ops)}
        launches = [launch for launch in self._open().phases[phase] if id(launch.op) in chosen]
        written = {op.output.name for op in ops}
        found = [launch.at(len(tables.rows), len(tables.slots)) for launch in launches]
        return _Schedule(
            ops=ops,
            dispatches=[dispatch for dispatch, _ in found],
            grids=[grid for _, grid in found],
            always=sum(id(launch.op) in always for launch in launches),
            outputs=tuple(value for value in self._plan.outputs[phase] if value.name in written),
        )

    def _write_step(self, program: Program, phase: str, tables: StepTables) -> None:
        program.step.write(self._gpu, tables)
        for host in program.host[phase]:
            values = gathered(host.op, host.tensor, tables)
            self._gpu.device.queue.write_buffer(program.values[phase][host.op.output.name], 0, values)

    def _run(self, launches: Sequence[Launch], rows: int, sequences: int) -> None:
        encoder = self._gpu.device.create_command_encoder()
        found = [launch.at(rows, sequences) for launch in launches]
        self._encode_pass(encoder, [dispatch for dispatch, _ in found], [grid for _, grid in found])
        self._gpu.device.queue.submit([encoder.finish()])

    def _encode_pass(self, encoder: Any, dispatches: Sequence[Dispatch], grids: Sequence[Grid]) -> None:
        work = encoder.begin_compute_pass()
        self._encode(work, dispatches, grids)
        work.end()


def _split(
    data: npt.NDArray[np.uint8], outputs: Sequence[Value], sizes: Sequence[int]
) -> dict[str, npt.NDArray[Any]]:
    """The outputs of each step, laid one behind the other in a row of `data`."""
    ends = np.cumsum(sizes)
    return {
        value.name: np.stack([_typed(step[end - size : end], value) for step in data])
        for value, size, end in zip(outputs, sizes, ends, strict=True)
    }


def _typed(data: npt.NDArray[np.uint8], value: Value) -> npt.NDArray[Any]:
    return data.view(DTYPES[value.dtype]).reshape(-1, value.columns)
