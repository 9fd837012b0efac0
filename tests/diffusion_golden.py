"""The tiny DiffusionGemmas of tests/goldens, and their canvases taken on by hand, on whatever runs a plan.

Nothing here decides anything: which tokens are encoded, which noise falls, when a canvas ends is what was recorded.
"""

import functools
import json
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from goldens.diffusion_weights import weight
from oracle import Oracle
from tensor_lists import read_shapes
from weights_files import write_safetensors

from doppler_core.manifest.catalog import shipped_manifest
from doppler_core.manifest.load import load_manifest, manifest_json
from doppler_core.manifest.model import Manifest
from doppler_core.plan.canvas import ACCEPTED, ENTROPY, LIKELIEST, NOTHING, TOKEN, CanvasStep, pack
from doppler_core.plan.check import check
from doppler_core.plan.names import ENCODER
from doppler_core.plan.op import Plan
from doppler_core.plan.operands import Tables
from doppler_core.plan.room import Room
from doppler_core.settings import EngineSettings
from doppler_core.weights.tensor import Tensor
from doppler_plugins.conversion import resolve_checkpoint
from doppler_plugins.model_types.diffusion import DiffusionModelType

FOLDER = Path(__file__).parent / "goldens"
MODELS = ("diffusion", "diffusion_wide")
RUNS = ("whole", "ends", "stops", "stable", "confident")  # of the smaller model; the larger has some
CANVAS, CHUNK, SLOTS = 16, 10, 3
ROOM = Room(128, SLOTS, CHUNK)

Values = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Run:
    """A run of transformers: what it was asked, what noise fell, and what each step made of its canvas.

    settings: of a manifest's `inference.diffusionGemma`. first: what each canvas held before its first step. Of each
    step: its canvas, how many steps were left, noise (u, token), what it made, the likeliest tokens, which positions
    were accepted, their entropies, whether the canvas was finished early.
    """

    settings: dict[str, Any]
    max_tokens: int
    answer: np.ndarray
    tokens_per_forward: float
    first: np.ndarray
    canvas: np.ndarray
    left: np.ndarray
    u: np.ndarray
    token: np.ndarray
    made: np.ndarray
    likeliest: np.ndarray
    accepted: np.ndarray
    entropy: np.ndarray
    finished: np.ndarray

    def step(self, number: int) -> CanvasStep:
        """The settings of a step; its noise is not drawn from a seed."""
        left, said = int(self.left[number]), self.settings
        share = left / said["maxDenoisingSteps"]
        temperature = said["tMin"] + (said["tMax"] - said["tMin"]) * share
        return CanvasStep(temperature, 0, left, said["entropyBound"])


@dataclass(frozen=True)
class Tiny:
    """A model with keys and values in f32: its plan, its weights, and what is known of it."""

    folder: Path
    manifest: Manifest
    plan: Plan
    tensors: dict[str, Tensor]
    golden: dict[str, np.ndarray]
    runs: dict[str, Run]


def checkpoint(name: str, into: Path) -> Path:
    """The model as its publisher would ship it; one whose weights are not kept is written below `into`."""
    folder = FOLDER / name
    if (folder / "model.safetensors").exists():
        return folder
    seed = int(golden(name)["seed"])
    shapes = read_shapes(folder / "tensors.tsv")
    words = {
        _stored(tensor): (weight(tensor, shape, seed).view(np.uint32) >> 16).astype(np.uint16)
        for tensor, shape in shapes.items()
    }
    write_safetensors(into / name / "model.safetensors", words)
    for file in folder.glob("*.json"):
        shutil.copy(file, into / name)
    return into / name


def _stored(name: str) -> str:
    """Where a publisher puts what torch calls the encoder's: both stacks' weights are stored once, as the decoder's."""
    return name if name.endswith("layer_scalar") else name.replace(ENCODER, "model.decoder.")


@functools.cache
def golden(name: str) -> dict[str, np.ndarray]:
    """What the forward pass gives."""
    with np.load(FOLDER / name / "golden.npz") as data:
        return dict(data)


def recorded(path: Path) -> Run:
    with np.load(path) as data:
        found = dict(data)
    plain = {key: found.pop(key).item() for key in ("max_tokens", "tokens_per_forward")}
    return Run(settings=json.loads(str(found.pop("settings"))), **plain, **found)


@functools.cache
def tiny(name: str, into: Path) -> Tiny:
    folder = checkpoint(name, into)
    found = resolve_checkpoint(folder, EngineSettings(precision="f32"))
    data = manifest_json(found.manifest)
    data["session"]["kvcache"]["kvDtype"] = "f32"
    for kernel in data["execution"]["kernels"].values():
        kernel.pop(
            "precision", None
        )  # it says which type the attention kernels were made for; they take both
    manifest, tensors = load_manifest(data), dict(found.checkpoint.tensors)
    plan = check(DiffusionModelType().lower(manifest, tensors, ROOM))
    runs = {
        path.stem.removeprefix("run_"): recorded(path) for path in sorted((FOLDER / name).glob("run_*.npz"))
    }
    return Tiny(folder, manifest, plan, tensors, golden(name), runs)


def with_f16_activations(manifest: Manifest) -> Manifest:
    """The manifest with the seed's activations, and its cast behind the token table."""
    seed = json.loads(shipped_manifest("diffusiongemma-26b-a4b-it-q4k-ehf16-af16").read_text())
    data = manifest_json(manifest)
    data["quantization"]["computePrecision"] = "f16"
    data["session"]["compute"] = seed["session"]["compute"]
    data["execution"]["kernels"]["cast"] = seed["execution"]["kernels"]["prefill_embedding_override_cast"]
    data["execution"]["preLayer"].append(["cast", "cast"])
    return load_manifest(data)


class Runner(Protocol):
    """An executor, as far as this needs one."""

    def capture(
        self,
        phase: str,
        rows: np.ndarray,
        slots: np.ndarray,
        names: Collection[str],
        sampling: np.ndarray | None = None,
        active: frozenset[str] = frozenset(),
    ) -> Values: ...

    def write_state(self, name: str, row: int, values: np.ndarray) -> None: ...

    def read_state(self, name: str, row: int, count: int) -> np.ndarray: ...


class Meant:
    """A plan run by its meanings, with an executor's words."""

    def __init__(self, plan: Plan, tensors: Mapping[str, Tensor], rounded_as: Plan | None = None) -> None:
        self._oracle = Oracle(plan, tensors, rounded_as)

    def capture(
        self,
        phase: str,
        rows: np.ndarray,
        slots: np.ndarray,
        names: Collection[str],
        sampling: np.ndarray | None = None,
        active: frozenset[str] = frozenset(),
    ) -> Values:
        return self._oracle.run(phase, Tables(rows, slots, sampling), active)

    def write_state(self, name: str, row: int, values: np.ndarray) -> None:
        self._oracle.states[name][row : row + len(values)] = values

    def read_state(self, name: str, row: int, count: int) -> np.ndarray:
        return self._oracle.states[name][row : row + count].copy()


@dataclass
class Seat:
    """A sequence at its place: `length` tokens are encoded, and its canvas stands behind them."""

    runner: Runner
    place: int = 0
    length: int = 0

    def encode(self, ids: Sequence[int], names: Collection[str] = ()) -> Values:
        """Put known tokens behind those that are there; values of all of them by name."""
        found: list[Values] = []
        for first in range(0, len(ids), CHUNK):
            rows, slots = self._rows(ids[first : first + CHUNK])
            found.append(self.runner.capture("encode", rows, slots, names))
            self.length += len(rows)
        return {name: np.concatenate([one[name] for one in found]) for name in names}

    def begin(self, tokens: np.ndarray, soft: int) -> None:
        """A canvas of these tokens before its first step. soft: values of a soft embedding."""
        lines = np.zeros((CANVAS, 4), np.uint32)
        lines[:, TOKEN], lines[:, LIKELIEST] = tokens, NOTHING
        self._write("canvas", lines)
        self._write("soft", np.zeros((CANVAS, soft), np.float32))

    def denoise(
        self, step: CanvasStep, u: np.ndarray, token: np.ndarray, names: Collection[str] = ("progress",)
    ) -> Values:
        """One step of the canvas, with this noise."""
        self._write("noise", np.stack([u.view(np.uint32), token.astype(np.uint32)], 1))
        rows, slots = self._rows([0] * CANVAS)  # `seat` puts the tokens there
        return self.runner.capture("denoise", rows, slots, names, pack([step]))

    def canvas(self) -> np.ndarray:
        """The canvas as the last step left it, u32 [C, 4]."""
        lines = self.runner.read_state("canvas", self.place * CANVAS, CANVAS)
        return np.roll(lines, -self.length, 0)

    def soft(self) -> np.ndarray:
        """The soft embeddings as the last step left them, [C, hidden]."""
        lines = self.runner.read_state("soft", self.place * CANVAS, CANVAS)
        return np.roll(lines, -self.length, 0)

    def stand_as(self, other: "Seat") -> None:
        """Take over another's canvas as it stands, and what its next step is conditioned on."""
        self._write("canvas", other.canvas())
        self._write("soft", other.soft())

    def remember(self, soft: np.ndarray) -> None:
        """Soft embeddings for the next step."""
        self._write("soft", soft)

    def _write(self, state: str, values: np.ndarray) -> None:
        """Position p lies in line p mod C."""
        self.runner.write_state(state, self.place * CANVAS, np.roll(values, self.length, 0))

    def _rows(self, ids: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        rows = [[token, self.length + index, 0, 0] for index, token in enumerate(ids)]
        return np.array(rows, np.uint32), np.array([[0, len(ids), 0, self.place]], np.uint32)


def repeated(of: Tiny, run: Run, runner: Runner, place: int = 0) -> Iterator[tuple[int, Values, np.ndarray]]:
    """A recorded run again: each step's number, its progress, and the canvas that it leaves."""
    sequence = Seat(runner, place)
    ids: Sequence[int] = of.golden["ids"].tolist()
    hidden = of.manifest.architecture.hidden_size or 0
    for canvas, tokens in enumerate(run.first):
        sequence.encode(ids)
        sequence.begin(tokens, hidden)
        for number in np.flatnonzero(run.canvas == canvas).tolist():
            values = sequence.denoise(run.step(number), run.u[number], run.token[number])
            yield number, values, sequence.canvas()
        ids = sequence.canvas()[:, LIKELIEST].tolist()


def entropies(canvas: np.ndarray) -> np.ndarray:
    """Of each position, in nats."""
    return np.ascontiguousarray(canvas[:, ENTROPY]).view(np.float32)


def same_step(run: Run, number: int, canvas: np.ndarray) -> bool:
    """Whether a step left the canvas that transformers did."""
    return (
        (canvas[:, TOKEN] == run.made[number]).all()
        and (canvas[:, ACCEPTED] == run.accepted[number]).all()
        and (canvas[:, LIKELIEST] == run.likeliest[number]).all()
    )
