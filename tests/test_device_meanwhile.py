"""What the host does while a step runs: it is done before a token is chosen, and after the step has begun."""

from dataclasses import replace

import numpy as np
import pytest
from gpu_ops import software_gpu
from small_decoder import ADVANCING, PLACES, VOCABULARY, small_decoder, step

from doppler_core.device.executor import Executor, StepTables
from doppler_core.device.numpy_executor import NumpyExecutor
from doppler_core.device.wgpu_executor import bind_wgpu
from doppler_core.errors import InputError
from doppler_core.plan.op import Kernel, Op, Plan, State, Value
from doppler_core.plan.sampling import Sampling, pack

MASKED = frozenset({"draw"})
WORDS = -(-VOCABULARY // 32)


def choosing_plan() -> tuple[Plan, dict]:
    """The small decoder, whose tokens a mask may limit."""
    plan, tensors = small_decoder()
    logits, adjusted = Value("logits", ("S", VOCABULARY)), Value("adjusted", ("S", VOCABULARY))
    sampled = Value("sampled", ("S", 1), "u32")
    states = (
        State("counts", (PLACES, VOCABULARY), "u32"),
        State("bias", (PLACES, VOCABULARY), "f32"),
        State("mask", (PLACES, WORDS), "u32"),
    )
    size = {"columns": VOCABULARY}
    choosing = (
        Op("adjust", "adjust", None, Kernel("adjust.wgsl", "main", ""), (logits, *states), adjusted, params=size, when="draw"),
        Op("draw", "draw", None, Kernel("draw.wgsl", "main", ""), (adjusted,), sampled, params=size, when="draw"),
    )  # fmt: skip
    # `advance` stays the last: it reads what either way has sampled.
    phases = {phase: (*ops[:-1], *choosing, ops[-1]) for phase, ops in plan.phases.items()}
    return replace(plan, phases=phases), tensors


@pytest.fixture(scope="module", params=["numpy", "wgpu"])
def executor(request: pytest.FixtureRequest) -> Executor:
    plan, tensors = choosing_plan()
    if request.param == "numpy":
        return NumpyExecutor(plan, tensors, max_rows=16, max_slots=PLACES)
    return bind_wgpu(plan, tensors, software_gpu(), max_rows=16, max_slots=PLACES)


def masked_step() -> StepTables:
    """Two sequences, at places 2 and 0, the first of which has a mask."""
    tables = step([[1, 2, 3], [9, 8]], [0, 0], [2, 0], MASKED)
    return replace(tables, sampling=pack([Sampling(masked=True), Sampling()]))


def allowing(token: int) -> np.ndarray:
    words = np.zeros((1, WORDS), np.uint32)
    words[0, token // 32] = 1 << token % 32
    return words


def test_a_mask_written_meanwhile_limits_the_tokens_of_this_step(executor: Executor) -> None:
    other = executor.submit("prefill", step([[9, 8]], [0], [0])).result()["sampled"][0, 0, 0]
    for token in (VOCABULARY - 1, 5):

        def write(allowed: int = token) -> None:
            executor.write_state("mask", 2, allowing(allowed))

        found = executor.submit("prefill", masked_step(), meanwhile=write).result()
        assert found["sampled"][0, :, 0].tolist() == [token, other]


def test_the_step_has_begun_by_then(executor: Executor) -> None:
    """What the step before its choice writes into a state, the host can read."""
    seen: list[np.ndarray] = []

    def read() -> None:
        seen.append(executor.read_state("0.kv", 0, 2))

    executor.write_state("mask", 2, allowing(1))
    executor.write_state("0.kv", 0, np.zeros((2, 16), np.float32))
    executor.submit("prefill", masked_step(), meanwhile=read)
    assert np.abs(seen[0]).min() > 0


def test_a_step_that_chooses_nothing_has_no_such_moment(executor: Executor) -> None:
    executor.submit("prefill", step([[1, 2]], [0], [0], frozenset()), meanwhile=pytest.fail).result()


def test_what_goes_wrong_meanwhile_ends_the_step(executor: Executor) -> None:
    executor.submit("decode", step([[1]], [0], [0], ADVANCING))
    with pytest.raises(ZeroDivisionError):
        executor.submit("prefill", masked_step(), meanwhile=lambda: 1 // 0)
    with pytest.raises(InputError, match="nothing to go on from"):
        executor.submit("decode", None)


def test_a_group_of_steps_leaves_the_host_no_moment(executor: Executor) -> None:
    with pytest.raises(InputError, match="meanwhile is done in one step"):
        executor.submit("decode", step([[1]], [0], [0], ADVANCING), 2, meanwhile=lambda: None)


def test_only_a_step_with_something_to_do_meanwhile_is_submitted_in_two(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan, tensors = choosing_plan()
    gpu = bind_wgpu(plan, tensors, software_gpu(), max_rows=16, max_slots=PLACES)
    gpu.write_state("mask", 2, allowing(1))
    submitted: list[object] = []
    submit = gpu._readback.submit

    def counted(commands: object) -> object:
        submitted.append(commands)
        return submit(commands)

    monkeypatch.setattr(gpu._readback, "submit", counted)
    for meanwhile, count in ((None, 1), (lambda: None, 2)):
        submitted.clear()
        gpu.submit("prefill", masked_step(), meanwhile=meanwhile).result()
        assert len(submitted) == count
