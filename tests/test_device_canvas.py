"""Both executors on a model of canvases: several at a time, in any places, as the meanings say; what a step leaves alone."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from gpu_ops import packed_step, software_gpu
from oracle import Oracle

from doppler_core.device.executor import Executor, StepTables
from doppler_core.device.numpy_executor import NumpyExecutor
from doppler_core.device.readback import Readback
from doppler_core.device.wgpu_executor import WgpuExecutor, bind_wgpu
from doppler_core.errors import InputError
from doppler_core.manifest.load import load_manifest, manifest_json
from doppler_core.plan.canvas import ENTROPY, LIKELIEST, NOTHING, TOKEN, CanvasStep, first_tokens, pack
from doppler_core.plan.check import check
from doppler_core.plan.op import Plan
from doppler_core.plan.operands import Tables
from doppler_core.plan.profile import apply_profile, profiles
from doppler_core.plan.room import Room
from doppler_core.settings import EngineSettings
from doppler_core.weights.tensor import Tensor
from doppler_plugins.conversion import resolve_checkpoint
from doppler_plugins.model_types.diffusion import DiffusionModelType

# A window of 16 and chunks of 16 make rings of 32 lines, which prompts of 60 tokens turn.
ROOM = Room(context_length=96, slots=3, chunk=16)
CANVAS, VOCABULARY, PLACES = 16, 512, 3
PROMPTS, PLACE = (5, 60, 23), (2, 0, 1)
RANDOM = frozenset({"random"})


@cache
def model() -> tuple[Plan, dict[str, Tensor]]:
    """The plan, with keys and values in f32, and the tensors."""
    found = resolve_checkpoint(Path(__file__).parent / "goldens/diffusion", EngineSettings(precision="f32"))
    data = manifest_json(found.manifest)
    data["session"]["kvcache"]["kvDtype"] = "f32"
    for kernel in data["execution"]["kernels"].values():
        kernel.pop("precision", None)
    manifest, tensors = load_manifest(data), dict(found.checkpoint.tensors)
    return check(DiffusionModelType().lower(manifest, tensors, ROOM)), tensors


def opened(device: str) -> Executor:
    """`packed`: no weight is expanded. `cut`: tensors of more than 256 rows lie in several buffers."""
    plan, tensors = model()
    sizes = {"max_rows": PLACES * CANVAS, "max_slots": PLACES}
    if device in ("numpy", "packed"):
        return NumpyExecutor(plan, tensors, room=0 if device == "packed" else None, **sizes)
    gpu = software_gpu()
    if device == "cut":
        # The token table has 512 rows of 256 bytes, as the experts' first tensors; a tile's logits are 98,304 bytes.
        gpu = dataclasses.replace(gpu, max_binding=100_000)
    return bind_wgpu(check(apply_profile(plan, profiles()["gpu"])), tensors, gpu, **sizes)


@pytest.fixture(scope="module", params=["numpy", "packed", "gpu", "cut"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    executor = opened(request.param)
    yield executor
    if not isinstance(executor, WgpuExecutor):  # closing it would destroy the device, which is shared
        executor.close()


@dataclass
class Pair:
    """An executor, and the meanings beside it, given the same."""

    executor: Executor
    oracle: Oracle

    def encode(self) -> None:
        """Prompts of random tokens, in chunks, several to a step."""
        draw = np.random.default_rng(3)
        for first in range(0, max(PROMPTS), ROOM.chunk):
            left = [min(ROOM.chunk, length - first) for length in PROMPTS]
            there = [slot for slot, count in enumerate(left) if count > 0]
            step = packed_step([left[slot] for slot in there], first, places=[PLACE[slot] for slot in there])
            step.rows[:, 0] = draw.integers(0, VOCABULARY, len(step.rows))
            self.oracle.run("encode", step)
            ticket = self.executor.submit("encode", StepTables(step.rows, step.slots))
            assert ticket.result() == {}
            assert ticket.ready()

    def begin(self, soft: int) -> None:
        for slot, (length, place) in enumerate(zip(PROMPTS, PLACE, strict=True)):
            lines = np.zeros((CANVAS, 4), np.uint32)
            lines[:, TOKEN] = first_tokens(slot, np.arange(length, length + CANVAS), VOCABULARY)
            lines[:, LIKELIEST] = NOTHING
            for name, values in (("canvas", lines), ("soft", np.zeros((CANVAS, soft), np.float32))):
                values = np.roll(values, length, 0)
                self.oracle.states[name][place * CANVAS : (place + 1) * CANVAS] = values
                self.executor.write_state(name, place * CANVAS, values)

    def states(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """A state, of the executor and of the meanings."""
        expected = self.oracle.states[name]
        return self.executor.read_state(name, 0, len(expected)), expected


def canvases(left: int) -> StepTables:
    """A step of all canvases, each at its own temperature, one of them greedy."""
    step = packed_step([CANVAS] * PLACES, PROMPTS, places=PLACE)
    step.rows[:, 0] = 0  # their tokens are in their states
    settings = [CanvasStep(0.5 + 0.2 * slot, slot, left, 0.5, greedy=slot == 1) for slot in range(PLACES)]
    return StepTables(step.rows, step.slots, pack(settings), RANDOM)


@pytest.fixture
def pair(executor: Executor) -> Pair:
    pair = Pair(executor, Oracle(*model()))
    pair.encode()
    pair.begin(model()[0].states()["soft"].columns)
    return pair


def bits(words: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(words).view(np.float32)


def test_an_encoders_step_gives_nothing_and_leaves_keys_and_values(pair: Pair) -> None:
    for name in model()[0].states():
        if name.endswith(".kv"):
            found, expected = pair.states(name)
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def test_canvases_in_any_places_are_taken_on_together_as_the_meanings_say(pair: Pair) -> None:
    kept = {
        name: pair.executor.read_state(name, 0, int(state.shape[0]))
        for name, state in model()[0].states().items()
        if name.endswith(".kv")
    }
    for left in (4, 3, 2):
        tables = canvases(left)
        expected = pair.oracle.run("denoise", Tables(tables.rows, tables.slots, tables.sampling), RANDOM)
        found = pair.executor.submit("denoise", tables).result()
        assert found.keys() == {"progress"}
        progress = found["progress"][0]
        np.testing.assert_array_equal(progress[:, 1:], expected["progress"][:, 1:])
        # A step's soft embeddings are the next one's input: errors of 1e-6 grow about tenfold with each.
        np.testing.assert_allclose(bits(progress[:, 0]), bits(expected["progress"][:, 0]), atol=1e-3)
        canvas, right = pair.states("canvas")
        np.testing.assert_array_equal(canvas[:, :ENTROPY], right[:, :ENTROPY])
        np.testing.assert_allclose(bits(canvas[:, ENTROPY]), bits(right[:, ENTROPY]), atol=2e-3)
        soft, right = pair.states("soft")
        np.testing.assert_allclose(soft, right, atol=2e-3 * np.abs(right).max())
    for name, before in kept.items():
        capacity = model()[0].states()[name].capacity
        written = np.zeros(len(before), np.bool_)
        for length, place in zip(PROMPTS, PLACE, strict=True):
            written[place * capacity + np.arange(length, length + CANVAS) % capacity] = True
        after = pair.executor.read_state(name, 0, len(before))
        np.testing.assert_array_equal(after[~written], before[~written])
        assert (after[written] != before[written]).any(axis=1).all()


def test_a_canvas_in_company_is_what_it_is_alone(pair: Pair) -> None:
    """To the token; products of fewer rows may sum in another order."""
    together = canvases(4)
    pair.executor.submit("denoise", together).result()
    lines = pair.executor.read_state("canvas", 0, PLACES * CANVAS)
    pair.begin(model()[0].states()["soft"].columns)
    for slot in range(PLACES):
        rows = together.rows[slot * CANVAS : (slot + 1) * CANVAS].copy()
        slots = together.slots[slot : slot + 1].copy()
        rows[:, 2], slots[:, 0] = 0, 0
        assert together.sampling is not None
        alone = StepTables(rows, slots, together.sampling[slot : slot + 1], RANDOM)
        pair.executor.submit("denoise", alone).result()
    found = pair.executor.read_state("canvas", 0, PLACES * CANVAS)
    np.testing.assert_array_equal(found[:, :ENTROPY], lines[:, :ENTROPY])
    np.testing.assert_allclose(bits(found[:, ENTROPY]), bits(lines[:, ENTROPY]), atol=1e-4)


def test_steps_take_no_more_memory_and_one_submit_each(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    submits: list[object] = []
    plain = Readback.submit

    def counted(self: Readback, commands: object) -> object:
        submits.append(commands)
        return plain(self, commands)

    monkeypatch.setattr(Readback, "submit", counted)
    pair.executor.submit("denoise", canvases(9)).result()
    held, first = pair.executor.memory_bytes, len(submits)
    for left in range(8, 0, -1):
        pair.executor.submit("denoise", canvases(left)).result()
    assert pair.executor.memory_bytes == held
    assert len(submits) == 9 * first
    assert first == isinstance(pair.executor, WgpuExecutor)


def test_a_step_of_canvases_needs_settings_and_fits_a_canvas(executor: Executor) -> None:
    with pytest.raises(InputError, match="without a sampling table"):
        executor.submit("denoise", dataclasses.replace(canvases(1), sampling=None))
    step = packed_step([CANVAS + 1], 3)
    longer = StepTables(step.rows, step.slots, canvases(1).sampling[:1], RANDOM)  # type: ignore[index]
    with pytest.raises(InputError, match=r"17 rows of one sequence in a step: .* leave room for 16"):
        executor.submit("denoise", longer)
    with pytest.raises(InputError, match="nothing to go on from in phase 'denoise'"):
        executor.submit("denoise", None)
