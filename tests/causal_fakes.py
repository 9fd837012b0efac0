"""A causal model without weights: its next token is a hash of what its states hold, so that one wrong key shows.

`ScriptedExecutor` keeps to the executor's contract and checks that its caller does: consecutive positions, nothing
read that was not written, no ring overrun. `answer` says what a prompt has to give, from the ids alone.
"""

import hashlib
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import AddedToken, decoders, models, processors
from tokenizers import Tokenizer as Backend

from doppler_core.device.executor import StepTables
from doppler_core.engine.choice import read_defaults
from doppler_core.engine.engine import Engine
from doppler_core.engine.model_type import Opened
from doppler_core.engine.request import Capabilities
from doppler_core.plan.op import Kernel, Op, Plan, State, Step, Value
from doppler_core.plan.room import Room
from doppler_core.plan.sampling import IN_PROMPT, NO_TOKEN, Sampling, unpack
from doppler_core.text.chat import choose_format
from doppler_core.text.tokenizer import Tokenizer
from doppler_plugins.model_types.causal_driver import CausalDriver
from tests.scripted_states import ScriptedStates, Size, Words

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
WORDS = [f"\u2581w{number}" for number in range(41)]
FIRST_BYTE, FIRST_WORD = 3, 3 + len(BYTES)
VOCABULARY = FIRST_WORD + len(WORDS)
MASK_WORDS = -(-VOCABULARY // 32)
BEGIN, END = 1, 2


def plan(size: Size, host: bool = False) -> Plan:
    """The states of such a model, the ops that read them, and no more."""
    nothing, query = Kernel("host" if host else "none", "main", ""), Value("q", ("T", 4))
    states = {
        **size.states(),
        -1: State("counts", (size.slots, VOCABULARY), "u32"),
        -2: State("bias", (size.slots, VOCABULARY), "f32"),
        -3: State("mask", (size.slots, MASK_WORDS), "u32"),
    }
    ops = tuple(
        Op("cached_attention", "attend", None, nothing, (query, state), query, params={"window": window})
        if window >= 0
        else Op("draw", "draw", None, nothing, (query, state), query)
        for window, state in states.items()
    )
    return Plan("scripted", {"prefill": ops, "decode": ops}, {}, largest=Step(size.chunk, size.slots))


def next_token(
    size: Size,
    ids: Sequence[int],
    sampling: Sampling = Sampling(),  # noqa: B008 - frozen
    counts: Mapping[int, int] | None = None,
    bias: Mapping[int, float] | None = None,
) -> int:
    """The token after `ids`: of all of them (full layer), the last ones (sliding layer) and how it is chosen."""
    seen = [list(ids), list(ids[-size.window :])]
    if not sampling.greedy:
        drawn = sampling.temperature > 0
        seen.append([sampling.seed * drawn, len(ids), round(sampling.temperature * 1000)])
        seen.append(sorted((counts or {}).items()) if sampling.penalized else [])
        seen.append(sorted((bias or {}).items()) if sampling.biased else [])
    digest = hashlib.blake2b(repr(seen).encode(), digest_size=8).digest()
    return 3 + int.from_bytes(digest, "little") % (VOCABULARY - 3)


def answer(
    size: Size,
    ids: Sequence[int],
    count: int,
    sampling: Sampling = Sampling(),  # noqa: B008 - frozen
    bias: Mapping[int, float] | None = None,
) -> list[int]:
    """The first `count` tokens after a prompt, one after the other, from nothing but the ids."""
    made: list[int] = []
    for _ in range(count):
        counts = dict.fromkeys(ids, IN_PROMPT)
        for token in made:
            counts[token] = counts.get(token, 0) + 1
        made.append(next_token(size, [*ids, *made], sampling, counts, bias))
    return made


@dataclass
class ScriptedTicket:
    """Steps whose result is there at once, or only when it is asked for."""

    outputs: Mapping[str, npt.NDArray[Any]]
    is_ready: bool

    def ready(self) -> bool:
        return self.is_ready

    def result(self) -> Mapping[str, npt.NDArray[Any]]:
        self.is_ready = True
        return self.outputs


@dataclass
class ScriptedExecutor(ScriptedStates):
    """Runs steps of `plan(size)`. runs_ahead: as a GPU does, it is not done when submit returns."""

    size: Size
    runs_ahead: bool = True
    seconds: float = 0.0  # of a step
    row_seconds: float = 0.0  # of each of its rows, beside those
    fault: BaseException | None = None  # what the next step raises
    poison: int | None = None  # what every step samples from now on
    under_way: bool = False  # a step has begun, and its tokens are not chosen yet
    device: str = "scripted"
    memory_bytes: int = 0
    log: list[tuple[str, int, int, int, frozenset[str]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(self.size, plan(self.size).states().values())
        self._last: dict[str, StepTables] = {}
        self.max_rows, self.max_slots = self.size.chunk, self.size.slots

    def submit(
        self,
        phase: str,
        tables: StepTables | None,
        steps: int = 1,
        meanwhile: Callable[[], None] | None = None,
    ) -> ScriptedTicket:
        if self.fault is not None:
            fault, self.fault = self.fault, None
            raise fault
        tables = self._last[phase] if tables is None else tables
        outputs: dict[str, list[npt.NDArray[Any]]] = {}
        for number in range(steps):
            time.sleep(self.seconds + self.row_seconds * len(tables.rows))
            if meanwhile is not None:
                assert steps == 1
                assert tables.active, "the step chooses something"
                self.under_way = True
                meanwhile()
                self.under_way = False
            sampled = self._step(phase, tables, outputs)
            if "advance" in tables.active:
                assert [row[2] for row in tables.rows.tolist()] == list(range(len(tables.slots)))
                rows = tables.rows.copy()
                rows[:, 0], rows[:, 1] = sampled, rows[:, 1] + 1
                tables = StepTables(rows, tables.slots, tables.sampling, tables.active)
            else:
                assert number == steps - 1, "further steps need the op advance"
        self._last = {phase: tables} if "advance" in tables.active else {}
        self.log.append((phase, len(tables.rows), len(tables.slots), steps, tables.active))
        return ScriptedTicket({name: np.stack(one) for name, one in outputs.items()}, not self.runs_ahead)

    def close(self) -> None: ...

    def _step(self, phase: str, tables: StepTables, outputs: dict[str, list[npt.NDArray[Any]]]) -> list[int]:
        assert phase == ("decode" if len(tables.rows) == 1 else "prefill")
        assert 0 < len(tables.rows) <= self.max_rows
        assert 0 < len(tables.slots) <= self.max_slots
        assert {"greedy", "draw"} - tables.active, "they exclude each other"
        places = [slot[3] for slot in tables.slots.tolist()]
        assert len(set(places)) == len(places)
        assert max(places) < self.size.slots
        assert tables.sampling is not None
        for first, count, _, place in tables.slots.tolist():
            mine = tables.rows[first : first + count]
            assert (np.diff(mine[:, 1].astype(int)) == 1).all(), "positions rise by one"
            assert int(mine[-1, 1]) < self.size.context
            self.store(place, mine)
        last = [tables.rows[first + count - 1].tolist() for first, count, *_ in tables.slots.tolist()]
        sampled = [
            self._choose(self.seen(place, position), place, line)
            for (_, position, *_), place, line in zip(last, places, tables.sampling, strict=True)
        ]
        if self.poison is not None:
            sampled = [self.poison] * len(sampled)
        if tables.active & {"greedy", "draw"}:
            outputs.setdefault("sampled", []).append(np.array(sampled, np.uint32)[:, None])
            if "greedy" in tables.active:
                lines = [unpack(line) for line in tables.sampling]
                assert all(one.greedy for one in lines)
        if "logprobs" in tables.active:
            outputs.setdefault("logprobs", []).append(np.stack([_logprobs(token) for token in sampled]))
        if "count" in tables.active:
            for place, token in zip(places, sampled, strict=True):
                self.states["counts"][place, token] += 1
        return sampled

    def _choose(self, seen: list[list[int]], place: int, line: Words) -> int:
        ids, tail = seen
        if tail != ids[-self.size.window :]:
            return 0  # the layers hold two different texts
        sampling = unpack(line)
        counts, bias = self.states["counts"][place], self.states["bias"][place]
        known = {int(token): int(counts[token]) for token in np.flatnonzero(counts)}
        biased = {int(token): float(bias[token]) for token in np.flatnonzero(bias)}
        token = next_token(self.size, ids, sampling, known, biased)
        if not sampling.masked:
            return token
        bits = np.unpackbits(self.states["mask"][place].view(np.uint8), bitorder="little")
        allowed = np.flatnonzero(bits[:VOCABULARY])
        return int(allowed[token % len(allowed)]) if len(allowed) else NO_TOKEN


def _logprobs(token: int) -> Words:
    words = np.zeros(42, np.uint32)
    words[0] = np.float32(-token / 1000).view(np.uint32)
    for rank in range(20):
        words[2 + 2 * rank] = (token + rank) % VOCABULARY
        words[3 + 2 * rank] = np.float32(-(token + rank) / 1000).view(np.uint32)
    return words


def write_tokenizer(path: Path) -> Path:
    """A Gemma-like tokenizer of control tokens, bytes, which all text becomes, and the words " w0" to " w40"."""
    vocabulary = {token: number for number, token in enumerate(["<unk>", "<bos>", "<eos>", *BYTES, *WORDS])}
    backend = Backend(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True))
    backend.add_special_tokens([AddedToken("<bos>"), AddedToken("<eos>")])
    backend.post_processor = processors.TemplateProcessing("<bos> $A", special_tokens=[("<bos>", BEGIN)])
    backend.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    backend.save(str(path))
    return path


@dataclass(frozen=True)
class DecodeLoop:
    """The manifest's section, as far as it is read."""

    batch_size: int = 4
    readback_interval: int = 2
    readback_mode: str = "overlapped"
    disable_command_batching: bool = False


SIZE, LOOP = Size(), DecodeLoop()


def driver(
    executor: ScriptedExecutor,
    tokenizer: Path,
    loop: DecodeLoop = DecodeLoop(),
    files: Mapping[str, Path] | None = None,
    host: bool = False,
) -> CausalDriver:
    """The causal driver on a scripted executor."""
    size, loaded = executor.size, Tokenizer(tokenizer, VOCABULARY)
    manifest = SimpleNamespace(session=SimpleNamespace(decode_loop=loop))
    return CausalDriver(
        Opened(
            executor=executor,  # type: ignore[arg-type]
            plan=plan(size, host),
            tokenizer=loaded,
            manifest=manifest,  # type: ignore[arg-type]
            room=Room(size.context, size.slots, size.chunk, size.snapshots),
            files=files or {},
            defaults=read_defaults((files or {}).get("generation_config.json")),
            chat_format=choose_format(None, files or {}, loaded),
        )
    )


def engine(driven: CausalDriver, size: Size) -> Engine:
    """An engine on that driver."""
    return Engine(
        model_id="scripted",
        identity="0",
        capabilities=Capabilities(generates=True, context_length=size.context),
        plan=plan(size),
        driver=driven,
        device="scripted",
        memory_bytes=0,
        closing=lambda: None,
    )


Opening = Callable[..., tuple[Engine, ScriptedExecutor]]


@contextmanager
def opening(tokenizer: Path) -> Iterator[Opening]:
    """A function that opens engines on scripted executors; they are closed at the end."""
    engines: list[Engine] = []

    def open_(
        size: Size = SIZE,
        loop: DecodeLoop = LOOP,
        host: bool = False,
        files: Mapping[str, Path] | None = None,
        **options: Any,
    ) -> tuple[Engine, ScriptedExecutor]:
        executor = ScriptedExecutor(size, **options)
        engines.append(engine(driver(executor, tokenizer, loop, files, host), size))
        return engines[-1], executor

    yield open_
    for one in engines:
        one.close()


def prompt(seed: int, length: int) -> tuple[int, ...]:
    """Token ids that begin as a prompt does."""
    numbers = random.Random(seed)
    return (BEGIN, *(numbers.randrange(3, VOCABULARY) for _ in range(length - 1)))
