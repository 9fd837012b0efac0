"""The WebGPU executor: a plan on a GPU device. Import it only where a GPU is used: it loads the native library."""

import gc
import struct
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from doppler_core.device.adapters import GpuAdapter
from doppler_core.device.gpu import Gpu, open_gpu
from doppler_core.device.gpu_errors import explained
from doppler_core.device.limits import check_plan, needed_features
from doppler_core.device.program import UNIFORM_STRIDE, Launch, Program, bind
from doppler_core.device.replay import Dispatch, best_encoder
from doppler_core.errors import DeviceLostError, InputError
from doppler_core.manifest.kernel_text import kernel_text
from doppler_core.plan.op import Op, Plan, Value
from doppler_core.weights.tensor import Tensor

Rows = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float32]


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
        self._encode = best_encoder(next(iter(program.phases.values()))[0].dispatch)
        self._vocabulary = _least(op.weights[0].shape[0] for op in plan.ops() if op.meaning == "gather")
        self._positions = _least(op.constants[0].shape[0] for op in plan.ops() if op.meaning == "rope")

    def run(self, phase: str, rows: Rows, slots: Rows) -> Floats:
        """Run a phase on the step's tables; its output value, f32."""
        output = self._plan.outputs[phase][0]
        with explained(f"running {phase} of {self._plan.model}"):
            program = self._write_step(rows, slots)
            self._submit(program.phases[phase], len(rows), len(slots))
            return self._read(program.values[phase][output.name], output, len(rows), len(slots))

    def capture(self, phase: str, rows: Rows, slots: Rows, names: Collection[str]) -> dict[str, Floats]:
        """Run a phase op by op and give the values of `names` as they were when their op had run."""
        with explained(f"running {phase} of {self._plan.model}"):
            program = self._write_step(rows, slots)
        found: dict[str, Floats] = {}
        launches: list[Launch] = []
        for index, launch in enumerate(program.phases[phase]):
            launches.append(launch)
            value = launch.op.output
            if value.name in names and self._ends(launch.op, program.phases[phase], index):
                with explained(f"running {phase} of {self._plan.model} up to {launch.op.label}"):
                    self._submit(launches, len(rows), len(slots))
                    found[value.name] = self._read(
                        program.values[phase][value.name], value, len(rows), len(slots)
                    )
                launches = []
        unknown = sorted(set(names) - set(found))
        if unknown:
            raise InputError(f"phase {phase!r} of {self._plan.model} has no values {unknown}")
        return found

    def close(self) -> None:
        """Give memory and device back. A second call does nothing."""
        program, self._program = self._program, None
        if program is not None:
            for buffer in program.buffers:
                buffer.destroy()
            self._gpu.device.destroy()
            # A device and its queue hold each other: only the collector frees them, and with them the driver's memory.
            del program, self._gpu, self._encode
            gc.collect()

    @staticmethod
    def _ends(op: Op, launches: tuple[Launch, ...], index: int) -> bool:
        """Whether the op's last section is at `index`."""
        return index + 1 == len(launches) or launches[index + 1].op is not op

    def _write_step(self, rows: Rows, slots: Rows) -> Program:
        if self._program is None:
            raise DeviceLostError(f"{self._plan.model} on {self.device} was closed: open it again")
        self._check_step(rows, slots)
        write = self._gpu.device.queue.write_buffer
        write(self._program.rows, 0, np.ascontiguousarray(rows, np.uint32))
        write(self._program.slots, 0, np.ascontiguousarray(slots, np.uint32))
        per_row = struct.pack("<4I", len(rows), len(slots), 0, 0)
        per_sequence = struct.pack("<4I", len(slots), len(slots), 0, 0)
        write(self._program.step, 0, per_row + bytes(UNIFORM_STRIDE - len(per_row)) + per_sequence)
        return self._program

    def _check_step(self, rows: Rows, slots: Rows) -> None:
        if not (0 < len(rows) <= self.max_rows and 0 < len(slots) <= self.max_slots):
            raise InputError(
                f"a step of {len(rows)} rows in {len(slots)} sequences: expected 1 to {self.max_rows} rows "
                f"and 1 to {self.max_slots} sequences"
            )
        # Past the end of a table a GPU reads zeros, or the last line, and says nothing.
        for column, (name, size) in enumerate(
            (("token id", self._vocabulary), ("position", self._positions))
        ):
            if int(rows[:, column].max()) >= size:
                raise InputError(f"{name} {int(rows[:, column].max())}: expected less than {size}")
        ends = slots[:, 0].astype(np.int64) + slots[:, 1]
        if int(rows[:, 2].max()) >= len(slots) or int(ends.max()) > len(rows):
            raise InputError("a row names a slot, or a slot a row, that the step does not have")

    def _submit(self, launches: Collection[Launch], rows: int, sequences: int) -> None:
        encoder = self._gpu.device.create_command_encoder()
        work = encoder.begin_compute_pass()
        dispatches: list[Dispatch] = [launch.dispatch for launch in launches]
        self._encode(work, dispatches, [launch.grid(rows, sequences) for launch in launches])
        work.end()
        self._gpu.device.queue.submit([encoder.finish()])

    def _read(self, buffer: Any, value: Value, rows: int, sequences: int) -> Floats:
        shape = [{"T": rows, "S": sequences}.get(str(dim), dim) for dim in value.shape]
        data = self._gpu.device.queue.read_buffer(buffer, 0, value.bytes(rows, sequences))
        return np.frombuffer(data, np.float32).reshape([int(size) for size in shape]).copy()


def _least(sizes: Iterable[int]) -> int:
    """The smallest size, or as much as a table of the step can say."""
    return min(sizes, default=1 << 32)
