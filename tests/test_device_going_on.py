"""Steps that go on from those before, submitted before anybody has read what those made."""

import numpy as np
import pytest
from gpu_ops import software_gpu
from small_decoder import ADVANCING, CONTEXT, GREEDY, PLACES, small_decoder, step

from doppler_core.device.executor import Executor
from doppler_core.device.numpy_executor import NumpyExecutor
from doppler_core.device.wgpu_executor import bind_wgpu
from doppler_core.errors import InputError


@pytest.fixture(params=["numpy", "wgpu"])
def executor(request: pytest.FixtureRequest) -> Executor:
    plan, tensors = small_decoder("f32", "gather.wgsl")
    if request.param == "numpy":
        return NumpyExecutor(plan, tensors, max_rows=16, max_slots=PLACES)
    return bind_wgpu(plan, tensors, software_gpu(), max_rows=16, max_slots=PLACES)


def begun(executor: Executor) -> np.ndarray:
    """Two sequences, at places 2 and 0; the tokens that follow, [2]."""
    return executor.submit("prefill", step([[1, 2, 3], [9, 8]], [0, 0], [2, 0])).result()["sampled"][0, :, 0]


def test_groups_that_go_on_make_the_tokens_of_one_group(executor: Executor) -> None:
    first = step([[token] for token in begun(executor).tolist()], [3, 2], [2, 0], ADVANCING)
    whole = executor.submit("prefill", first, 9).result()["sampled"]
    begun(executor)
    groups = [executor.submit("prefill", first, 2), *(executor.submit("prefill", None, n) for n in (3, 1, 3))]
    found = [group.result()["sampled"] for group in groups]
    assert groups[-1].ready()
    np.testing.assert_array_equal(np.concatenate(found), whole)


def test_going_on_needs_a_step_of_the_phase_that_advanced(executor: Executor) -> None:
    with pytest.raises(InputError, match="nothing to go on from in phase 'decode'"):
        executor.submit("decode", None)
    executor.submit("decode", step([[1]], [0], [0], ADVANCING))
    with pytest.raises(InputError, match="nothing to go on from in phase 'prefill'"):
        executor.submit("prefill", None)
    executor.submit("decode", None)
    executor.submit("decode", step([[1]], [2], [0], GREEDY))
    with pytest.raises(InputError, match="nothing to go on from"):
        executor.submit("decode", None)


def test_going_on_ends_with_the_context(executor: Executor) -> None:
    executor.submit("decode", step([[1]], [CONTEXT - 4], [0], ADVANCING), 2)
    with pytest.raises(InputError, match=f"expected less than {CONTEXT}"):
        executor.submit("decode", None, 3)
    assert executor.submit("decode", None, 2).result()["sampled"].shape == (2, 1, 1)
