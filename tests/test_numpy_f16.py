"""f16 activations on the NumPy executor: what an op writes is rounded once, and held in words of four bytes."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from diffusion_golden import CANVAS, ROOM, SLOTS, Meant, Seat, tiny, with_f16_activations
from gpu_ops import packed_step
from test_causal_goldens import relative

from doppler_core.device.numpy_call import Call
from doppler_core.device.numpy_executor import NumpyExecutor
from doppler_core.plan.canvas import CanvasStep
from doppler_core.plan.check import check
from doppler_core.plan.cost import numpy_resident
from doppler_core.plan.op import Plan, State
from doppler_core.settings import EngineSettings
from doppler_core.weights.tensor import Tensor
from doppler_plugins.conversion import resolve_checkpoint
from doppler_plugins.model_types.diffusion import DiffusionModelType

STEP = CanvasStep(1.0, 0, 1, 0.1)
UNDRAWN = np.full(CANVAS, 0.5, np.float32)


@dataclass(frozen=True)
class Narrow:
    plan: Plan
    tensors: dict[str, Tensor]
    golden: dict[str, np.ndarray]
    executor: NumpyExecutor

    def names(self) -> dict[str, str]:
        """The types of what a denoising step's ops write."""
        values = (op.output for op in self.plan.phases["denoise"])
        return {
            value.name: value.dtype
            for value in values
            if not isinstance(value, State) and value.name != "rows"
        }


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Narrow]:
    of = tiny("diffusion", tmp_path_factory.mktemp("diffusion"))
    found = resolve_checkpoint(Path(of.folder), EngineSettings(precision="f16"))
    tensors = dict(found.checkpoint.tensors)
    plan = check(DiffusionModelType().lower(with_f16_activations(found.manifest), tensors, ROOM))
    executor = NumpyExecutor(plan, tensors, max_rows=SLOTS * CANVAS, max_slots=SLOTS)
    yield Narrow(plan, tensors, of.golden, executor)
    executor.close()


def test_every_value_of_f16_is_an_f16_and_what_its_meaning_gives(narrow: Narrow) -> None:
    names, golden = narrow.names(), narrow.golden
    own, oracle = Seat(narrow.executor), Seat(Meant(narrow.plan, narrow.tensors))
    for seat in (own, oracle):
        seat.encode(golden["ids"].tolist())
    own.begin(golden["tokens"], golden["first"].shape[-1])
    own.denoise(STEP, UNDRAWN, golden["tokens"])  # what the next step is conditioned on
    oracle.stand_as(own)
    found, meant = (seat.denoise(STEP, UNDRAWN, golden["tokens"], list(names)) for seat in (own, oracle))
    assert sum(dtype == "f16" for dtype in names.values()) > 60
    for name, dtype in names.items():
        if dtype == "f16":
            np.testing.assert_array_equal(found[name], found[name].astype(np.float16).astype(np.float32))
        if dtype != "u32":
            # A sum in another order may round to the next f16, 2^-10 away, and a few ops later to the one behind that.
            assert relative(found[name], meant[name]) < 4e-3, name


def test_it_holds_what_the_plan_says(narrow: Narrow) -> None:
    # Weights of one axis, which the plan leaves out, and the ends of buffers.
    assert narrow.executor.memory_bytes == pytest.approx(numpy_resident(narrow.plan), rel=0.1)


@pytest.mark.parametrize("half", [True, False])
def test_rows_are_rounded_where_the_output_is_f16(half: bool) -> None:
    x = np.array([[1.0 + 2**-12, 1e5], [-1e5, 1 / 3], [1e-9, 0.1]], np.float32)
    call = Call({}, [], x.copy(), [], [], [], packed_step([3]), half=half)
    call.round(slice(0, 2))
    expected = x.copy()
    if half:
        expected[:2] = [[1.0, np.inf], [-np.inf, np.float16(1 / 3)]]
    np.testing.assert_array_equal(call.output, expected)
