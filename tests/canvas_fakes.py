"""A model of canvases without weights: what a step makes of a canvas is a hash of all that it may depend on.

`ScriptedCanvases` keeps to the executor's contract and checks that its caller does. `answer` says what a prompt has to
give, from the ids and the settings alone: it shares the noise of seeds with the engine (plan.canvas), and no more.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from doppler_core.device.executor import StepTables
from doppler_core.engine.choice import read_defaults
from doppler_core.engine.engine import Engine
from doppler_core.engine.model_type import Opened
from doppler_core.engine.request import Canvas, CanvasNoise, Capabilities
from doppler_core.plan import canvas_meaning
from doppler_core.plan.canvas import TOKEN, first_tokens, step_noise, unpack
from doppler_core.plan.op import Kernel, Op, Plan, State, Step, Value
from doppler_core.plan.operands import Operands, Tables
from doppler_core.plan.room import Room
from doppler_core.text.chat import choose_format
from doppler_core.text.tokenizer import Tokenizer
from doppler_plugins.model_types.diffusion_driver import DiffusionDriver
from tests.causal_fakes import END, VOCABULARY, ScriptedTicket
from tests.scripted_states import ScriptedStates, Size, Words

LENGTH, STEPS = 5, 7
COOLEST, HOTTEST, BOUND = 0.4, 0.8, 0.1
MAX_TOKENS = 12
PAD = 0
SIZE = Size(context=96, window=8, chunk=6, slots=4, snapshots=4)


def plan(size: Size) -> Plan:
    """The states of such a model, the ops that read them, and no more."""
    nothing, query = Kernel("none", "main", ""), Value("q", ("T", 4))
    kept = tuple(
        Op("cached_attention", "attend", None, nothing, (query, state), query, params={"window": window})
        for window, state in size.states().items()
    )
    count = size.slots * LENGTH
    own = tuple(
        Op("recall", name, None, nothing, (State(name, (count, columns), dtype, LENGTH),), query)
        for name, columns, dtype in (("canvas", 4, "u32"), ("noise", 2, "u32"), ("soft", 2, "f32"))
    )
    largest = Step(max(size.chunk, count), size.slots)
    return Plan("scripted", {"encode": kept, "denoise": (*kept, *own)}, {}, largest=largest)


@dataclass(frozen=True)
class Picked:
    """What a step's logits say of each position. soft: what the next step is told of this one."""

    samples: list[int]
    likeliest: list[int]
    entropies: list[float]
    soft: tuple[float, float]


def pick(
    ids: Sequence[int],
    tokens: Sequence[int],
    soft: tuple[float, float],
    temperature: float,
    u: Sequence[int] | None,
) -> Picked:
    """The step of a canvas `tokens` behind `ids`. u: bits of the noise; None = greedy.

    The first one to four steps are wild: their likeliest tokens hang on all of it. Those after them are calm: theirs
    hang on `ids` alone, with hardly any entropy.
    """
    taken = int(soft[1])
    wild = taken <= len(ids) % 4
    seen = (list(ids), list(tokens), soft, round(temperature, 6)) if wild else list(ids)
    rolled = [_roll(seen, at) for at in range(len(tokens))]
    likeliest = [3 + roll % (VOCABULARY - 3) for roll in rolled]
    samples = (
        likeliest
        if u is None
        else [3 + _roll(one, bits) % (VOCABULARY - 3) for one, bits in zip(likeliest, u, strict=True)]
    )
    entropies = [float(np.float32(roll % 997 / 997 / 8 if wild else 0.001)) for roll in rolled]
    return Picked(samples, likeliest, entropies, (float(_roll(seen, "soft") % 2**24), float(taken + 1)))


def _roll(*seen: object) -> int:
    return int.from_bytes(hashlib.blake2b(repr(seen).encode(), digest_size=8).digest(), "little")


@dataclass(frozen=True)
class Wishes:
    """What a request may ask of its canvases."""

    seed: int = 0
    steps: int = STEPS
    scale: float = 1.0
    greedy: bool = False
    noise: CanvasNoise | None = None


def answer(size: Size, ids: Sequence[int], most: int, wishes: Wishes = Wishes()) -> list[list[Canvas]]:
    """Each step of each canvas until there are `most` tokens, from nothing but the ids; texts are left out."""
    known, found = list(ids), []
    while len(known) < min(len(ids) + most, size.context):
        found.append(_canvas(size, known, len(found), wishes))
        known += found[-1][-1].ids
    return found


def tokens_of(canvases: Sequence[Sequence[Canvas]], most: int) -> list[int]:
    """The answer that those canvases are."""
    return [token for steps in canvases for token in steps[-1].ids][:most]


def _canvas(size: Size, known: list[int], number: int, wishes: Wishes) -> list[Canvas]:
    count = min(LENGTH, size.context - len(known))
    positions = len(known) + np.arange(count)
    drawn = wishes.noise
    tokens = (
        first_tokens(wishes.seed, positions, VOCABULARY) if drawn is None else drawn.first(number)
    ).tolist()
    soft, shown = (0.0, 0.0), []
    for taken in range(wishes.steps):
        left = wishes.steps - taken
        temperature = (COOLEST + (HOTTEST - COOLEST) * left / wishes.steps) * wishes.scale
        u, fresh = _noise(wishes, number, left, positions)
        made = pick(known, tokens, soft, float(np.float32(temperature)), None if wishes.greedy else u)
        accepted = _accepted(made.entropies)
        before, soft = shown[-1].ids if shown else None, made.soft
        tokens = [
            sample if took else new for sample, took, new in zip(made.samples, accepted, fresh, strict=True)
        ]
        still = before == tuple(made.likeliest)
        done = left == 1 or (still and np.mean(np.float32(made.entropies), dtype=np.float32) < 0.005)
        settled = (False,) * count if before is None else tuple(map(int.__eq__, before, made.likeliest))
        shown.append(
            Canvas(
                number,
                taken + 1,
                wishes.steps,
                bool(done),
                "",
                tuple(made.likeliest),
                settled,
                tuple(tokens),
                tuple(accepted),
                tuple(made.entropies),
            )
        )
        if done:
            break
    return shown


def _noise(
    wishes: Wishes, number: int, left: int, positions: npt.NDArray[Any]
) -> tuple[list[int], list[int]]:
    if wishes.noise is None:
        words = step_noise(wishes.seed, left, positions, VOCABULARY)
        return words[:, 0].tolist(), words[:, 1].tolist()
    u, tokens = wishes.noise.step(number, wishes.steps - left + 1)
    return u.astype(np.float32).view(np.uint32).tolist(), tokens.tolist()


def _accepted(entropies: Sequence[float]) -> list[bool]:
    """The surest, then the next, as long as those before it sum to the bound at most."""
    accepted, total = [False] * len(entropies), 0.0
    for at in sorted(range(len(entropies)), key=lambda at: (entropies[at], at)):
        accepted[at] = total <= float(np.float32(BOUND))
        total += entropies[at]
    return accepted


class Recorded:
    """Noise out of a table of its own."""

    def __init__(self, seed: int, length: int = LENGTH) -> None:
        self._seed, self._length = seed, length

    def first(self, canvas: int) -> npt.NDArray[np.int64]:
        return self._numbers(canvas, 0).integers(0, VOCABULARY, self._length)

    def step(self, canvas: int, step: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        numbers = self._numbers(canvas, step)
        return numbers.random(self._length), numbers.integers(0, VOCABULARY, self._length)

    def _numbers(self, canvas: int, step: int) -> np.random.Generator:
        return np.random.default_rng([self._seed, canvas, step])


@dataclass
class ScriptedCanvases(ScriptedStates):
    """Runs steps of `plan(size)`."""

    size: Size
    seconds: float = 0.0  # of a step
    row_seconds: float = 0.0  # of each row that is encoded, beside those
    fault: BaseException | None = None  # what the next step raises
    poison: Sequence[int] = ()  # a canvas behind a prompt that begins so gets logits that are no numbers
    device: str = "scripted"
    memory_bytes: int = 0
    log: list[tuple[str, int, int, frozenset[str]]] = field(default_factory=list)
    read: int = 0  # rows of states that were read back

    def __post_init__(self) -> None:
        made = plan(self.size)
        super().__init__(self.size, made.states().values())
        self.max_rows, self.max_slots = made.largest.rows, made.largest.sequences

    def submit(
        self,
        phase: str,
        tables: StepTables,
        steps: int = 1,
        meanwhile: Callable[[], None] | None = None,
    ) -> ScriptedTicket:
        assert steps == 1
        assert meanwhile is None
        if self.fault is not None:
            fault, self.fault = self.fault, None
            raise fault
        time.sleep(self.seconds + self.row_seconds * len(tables.rows) * (phase == "encode"))
        self.log.append((phase, len(tables.rows), len(tables.slots), tables.active))
        assert 0 < len(tables.rows) <= self.max_rows
        assert len({place for *_, place in tables.slots.tolist()}) == len(tables.slots) <= self.max_slots
        for first, count, _, place in tables.slots.tolist():
            mine = tables.rows[first : first + count, 1].astype(int)
            assert (np.diff(mine) == 1).all(), "positions rise by one"
            assert mine[-1] < self.size.context
            assert place < self.size.slots
        if phase == "encode":
            assert not tables.active
            self._encode(tables)
            return ScriptedTicket({}, True)
        assert phase == "denoise"
        return ScriptedTicket({"progress": self._denoise(tables)[None]}, True)

    def read_state(self, name: str, row: int, count: int) -> npt.NDArray[Any]:
        self.read += count
        return super().read_state(name, row, count)

    def close(self) -> None: ...

    def _encode(self, step: StepTables) -> None:
        for first, count, _, place in step.slots.tolist():
            mine = step.rows[first : first + count]
            self.store(place, mine)
            for position in mine[:, 1].tolist():
                self._text(place, position)

    def _denoise(self, step: StepTables) -> Words:
        tables = Tables(step.rows, step.slots, step.sampling)
        at, capacity = tables.lines(LENGTH), {"capacity": LENGTH, "vocabulary": VOCABULARY}
        rows = canvas_meaning.seat(capacity, Operands([self.states["canvas"]]), tables)
        if "random" in step.active:
            noise = canvas_meaning.noise(capacity, Operands([self.states["noise"]]), tables)
            self.states["noise"] = noise
        picks = np.zeros((len(rows), 4), np.uint32)
        for (first, count, _, place), line in zip(step.slots.tolist(), step.sampling, strict=True):
            mine = slice(first, first + count)
            assert count <= LENGTH
            self.store(place, rows[mine])
            picks[mine] = self._picked(place, rows[mine], at[mine], line)
        given = [picks, self.states["canvas"]]
        progress = canvas_meaning.progress(capacity, Operands(given), tables)
        self.states["canvas"] = canvas_meaning.accept(
            capacity, Operands([picks, self.states["noise"], self.states["canvas"]]), tables
        )
        return progress

    def _picked(self, place: int, rows: Words, at: npt.NDArray[Any], line: Words) -> Words:
        """Every row sees what the first sees, and all of the canvas."""
        *ids, _ = self._text(place, int(rows[0, 1]))
        self._text(place, int(rows[-1, 1]))
        settings = unpack(line)
        soft = {tuple(one) for one in self.states["soft"][at].tolist()}
        assert len(soft) == 1, "a canvas's lines are all its own"
        u = None if settings.greedy else self.states["noise"][at, 0].tolist()
        tokens = self.states["canvas"][at, TOKEN].tolist()
        made = pick(ids, tokens, soft.pop(), settings.temperature, u)
        self.states["soft"][at] = made.soft
        entropies = np.array(made.entropies, np.float32)
        if self.poison and ids[: len(self.poison)] == list(self.poison):
            entropies[-1] = np.nan
        return np.stack(
            [np.uint32(made.samples), np.uint32(made.likeliest), entropies.view(np.uint32), at * 0], -1
        ).astype(np.uint32)

    def _text(self, place: int, position: int) -> list[int]:
        ids, tail = self.seen(place, position)
        assert tail == ids[-self.size.window :], "the layers hold two different texts"
        return ids


def driver(
    executor: ScriptedCanvases, tokenizer: Path, files: Mapping[str, Path], **settings: Any
) -> DiffusionDriver:
    """The driver on a scripted executor. settings: of the manifest's section."""
    size, loaded = executor.size, Tokenizer(tokenizer, VOCABULARY)
    section = {
        "canvas_length": LENGTH,
        "max_denoising_steps": STEPS,
        "max_new_tokens": MAX_TOKENS,
        "t_min": COOLEST,
        "t_max": HOTTEST,
        "entropy_bound": BOUND,
        "confidence_threshold": 0.005,
        "stability_threshold": 1,
        "pad_token_id": PAD,
        "eos_token_ids": (END,),
        "self_conditioning": True,
    }
    manifest = SimpleNamespace(
        inference=SimpleNamespace(diffusion_gemma=SimpleNamespace(**(section | settings))),
    )
    return DiffusionDriver(
        Opened(
            executor=executor,  # type: ignore[arg-type]
            plan=plan(size),
            tokenizer=loaded,
            manifest=manifest,  # type: ignore[arg-type]
            room=Room(size.context, size.slots, size.chunk, size.snapshots),
            files=files,
            defaults=read_defaults(files.get("generation_config.json")),
            chat_format=choose_format(None, files, loaded),
        )
    )


CanvasOpening = Callable[..., tuple[Engine, ScriptedCanvases]]


@contextmanager
def opening(tokenizer: Path) -> Iterator[CanvasOpening]:
    """A function that opens engines on scripted executors; they are closed at the end."""
    engines: list[Engine] = []

    def open_(
        size: Size = SIZE,
        files: Mapping[str, Path] | None = None,
        settings: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> tuple[Engine, ScriptedCanvases]:
        executor = ScriptedCanvases(replace(size, chunk=max(size.chunk, LENGTH)), **options)
        engines.append(
            Engine(
                model_id="scripted",
                identity="0",
                capabilities=Capabilities(generates=True, streams_drafts=True, context_length=size.context),
                plan=plan(executor.size),
                driver=driver(executor, tokenizer, files or {}, **(settings or {})),
                device="scripted",
                memory_bytes=0,
                closing=lambda: None,
            )
        )
        return engines[-1], executor

    yield open_
    for one in engines:
        one.close()
