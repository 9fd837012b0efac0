"""A plan bound to a GPU device: weights and states in memory, a launch for every op. Replayed many times."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from doppler_core.device.binder import Binder, Launch, Text
from doppler_core.device.gpu import Gpu
from doppler_core.device.step_buffers import StepBuffers, make_step_buffers
from doppler_core.device.wgpu_states import GpuStates
from doppler_core.plan.arena import Arena, shared
from doppler_core.plan.op import HOST, Op, Plan
from doppler_core.weights.tensor import Tensor


@dataclass(frozen=True)
class HostOp:
    """An op that the host computes before a step, from the memory map of its weight."""

    op: Op
    tensor: Tensor


@dataclass(frozen=True)
class Program:
    """phases: launches in order. host: what the host computes before. values: the buffer of each phase's values.

    states: what outlives the step. buffers: all of them.
    """

    phases: Mapping[str, tuple[Launch, ...]]
    host: Mapping[str, tuple[HostOp, ...]]
    values: Mapping[str, Mapping[str, Any]]
    states: GpuStates
    step: StepBuffers
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
    step = make_step_buffers(gpu, max_rows, max_slots)
    # A new buffer holds zeros, as WebGPU has it.
    states = {name: gpu.storage(state.bytes(max_rows, max_slots)) for name, state in plan.states().items()}
    binder = Binder(gpu, text, step)
    binder.load(plan, tensors, progress)
    arena_buffers = [gpu.storage(size) for size in shared(arenas.values())]
    values = {
        phase: {name: arena_buffers[place] for name, place in arena.place.items()}
        for phase, arena in arenas.items()
    }
    phases = {
        phase: tuple(
            launch
            for op in ops
            if op.kernel.file != HOST
            for launch in binder.launches(op, {**step.tables, **states, **values[phase]})
        )
        for phase, ops in plan.phases.items()
    }
    host = {
        phase: tuple(HostOp(op, tensors[op.weights[0].name]) for op in ops if op.kernel.file == HOST)
        for phase, ops in plan.phases.items()
    }
    return Program(
        phases=phases,
        host=host,
        values=values,
        states=GpuStates(gpu, plan.states(), states),
        step=step,
        buffers=(*step.owned, *states.values(), *binder.owned, *arena_buffers),
    )
