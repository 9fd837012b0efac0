"""The real Gemma 3 270M as a GGUF file: `DOPPLER_PLUGINS_REAL_MODELS=<folder> pytest -m real`, minutes.

<folder>/gemma-3-270m-q4_k_m.gguf. What is expected, tests/data/gemma3_270m*, was computed with transformers 5.24 in
float32 on the de-quantised weights; of 700 tokens plain NumPy computes it here.
"""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plain_gemma3 import next_logits
from test_causal_goldens import relative, step

from doppler_core.device.executor import Executor
from doppler_core.engine.engine import Engine
from doppler_core.engine.request import GenerateRequest
from doppler_core.plan.operands import Tables
from doppler_core.settings import EngineSettings
from doppler_core.text.tokenizer import Tokenizer
from doppler_plugins.conversion import resolve_checkpoint
from doppler_plugins.opening import open_engine

pytestmark = pytest.mark.real

DATA = Path(__file__).parent / "data"
GREEDY: list[dict[str, Any]] = json.loads((DATA / "gemma3_270m_greedy.json").read_text("utf-8"))
FRANCE = "The capital of France is"
LONG = " ".join(f"Stop {i} is a {'red' if i % 3 else 'blue'} house by the river." for i in range(70))
# Relative to the largest value of a layer, or of the logits: keys and values are kept in f16.
TOLERANCE = 1e-3
CHUNKS = [(256, 256, 188), (1, 255, 2, 1, 256, 185), (97,) * 7 + (21,)]


@pytest.fixture(scope="module")
def file() -> Path:
    return Path(os.environ["DOPPLER_PLUGINS_REAL_MODELS"]) / "gemma-3-270m-q4_k_m.gguf"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    return os.environ.get("DOPPLER_PLUGINS_CACHE_DIR") or str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module", params=["numpy", "wgpu"])
def engine(request: pytest.FixtureRequest, file: Path, cache: str) -> Iterator[Engine]:
    settings = EngineSettings(device=request.param, slots=8, context_length=1024, cache_dir=cache)
    with open_engine(file, settings) as opened:
        yield opened


@pytest.fixture
def executor(engine: Engine) -> Iterator[Executor]:
    """The engine's own, while it has nothing to do."""
    decoder = engine._driver._decoder  # type: ignore[attr-defined]
    yield decoder._executor
    decoder._places.forget()


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(DATA / "gemma3_270m.npz") as data:
        return dict(data)


@pytest.fixture(scope="module")
def long(file: Path, cache: str) -> tuple[tuple[int, ...], np.ndarray]:
    """700 tokens, past the window of 512, and the logits behind them."""
    ids = (2, *tokenizer(file, cache).encode(LONG, bare=True)[:699])
    assert len(ids) == 700
    return ids, expected(file, cache, ids)


@functools.cache
def expected(file: Path, cache: str, ids: tuple[int, ...]) -> np.ndarray:
    checkpoint = resolve_checkpoint(file, EngineSettings(cache_dir=cache)).checkpoint
    return next_logits(checkpoint.tensors, checkpoint.config, ids)


@functools.cache
def tokenizer(file: Path, cache: str) -> Tokenizer:
    files = resolve_checkpoint(file, EngineSettings(cache_dir=cache)).checkpoint.tokenizer_files
    return Tokenizer(files["tokenizer.json"], 262_144)


def names(layers: np.ndarray) -> list[str]:
    """The values that hold what transformers calls the hidden states of these layers."""
    return [
        "embed" if n == 0 else "final_norm" if n == 18 else f"layers.{n - 1}.ffn_residual" for n in layers
    ]


def fed(executor: Executor, ids: Sequence[int], chunks: Sequence[int], place: int) -> np.ndarray:
    """The logits behind `ids`, run at a place in chunks of so many tokens."""
    assert sum(chunks) == len(ids)
    first = 0
    for count in chunks:
        tables = step(list(ids[first : first + count]), first, place)
        phase = "prefill" if count > 1 else "decode"
        logits = executor.capture(phase, tables.rows, tables.slots, ["logits"])["logits"]
        first += count
    return np.asarray(logits[-1])


def test_a_prompt_has_the_hidden_states_and_logits_of_transformers(
    executor: Executor, golden: dict[str, np.ndarray]
) -> None:
    ids, layers = golden["ids"].tolist(), names(golden["layers"])
    tables = step(ids, 0)
    found = executor.capture("prefill", tables.rows, tables.slots, [*layers, "logits"])
    for name, rows in zip(layers, golden["hidden"], strict=True):
        rows = rows[-len(found[name]) :]  # behind the last layer there is the last row alone
        assert relative(found[name], rows) < TOLERANCE, name
        if len(rows) > 1:  # the begin token's row is many times as large as any other and would hide them
            assert relative(found[name][1:], rows[1:]) < TOLERANCE, name
    assert relative(found["logits"][0][golden["tokens"]], golden["logits"]) < TOLERANCE


def test_tokens_one_by_one_have_the_hidden_states_and_logits_of_transformers(
    executor: Executor, golden: dict[str, np.ndarray]
) -> None:
    layers, found = names(golden["layers"]), []
    for position, token in enumerate(golden["ids"].tolist()):
        tables = step([token], position, place=3)
        found.append(executor.capture("decode", tables.rows, tables.slots, [*layers, "logits"]))
    for name, rows in zip(layers, golden["hidden"], strict=True):
        values = np.concatenate([one[name] for one in found])
        assert relative(values, rows) < TOLERANCE, name
        assert relative(values[1:], rows[1:]) < TOLERANCE, name
    assert relative(found[-1]["logits"][0][golden["tokens"]], golden["logits"]) < TOLERANCE


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_past_the_window_the_logits_are_those_of_a_run_without_a_cache(
    executor: Executor, long: tuple[tuple[int, ...], np.ndarray], chunks: tuple[int, ...]
) -> None:
    ids, logits = long
    error = relative(fed(executor, ids, chunks, place=len(chunks) % 8), logits)
    print(executor.device, chunks, "logits of 700 tokens differ by", error)
    assert error < TOLERANCE


def test_among_seven_others_the_logits_are_those_of_a_run_alone(
    executor: Executor, file: Path, cache: str
) -> None:
    """The prompt in the middle of steps that are full of other prompts, at other positions."""
    ids = tokenizer(file, cache).encode(LONG, bare=True)[:60]
    mine, others = (2, *ids), [(2, *ids[number:]) for number in range(1, 8)]
    at = [0] * 8
    for count in (20, 1, 40):
        rows: list[list[int]] = []
        slots: list[list[int]] = []
        for slot, (text, more) in enumerate(
            zip([*others[:3], mine, *others[3:]], [5, 1, 11, count, 3, 2, 7, 1], strict=True)
        ):
            slots.append([len(rows), more, 0, 7 - slot])
            rows += [[text[at[slot] + index], at[slot] + index, slot, 0] for index in range(more)]
            at[slot] += more
        tables = Tables(np.array(rows, np.uint32), np.array(slots, np.uint32))
        found = executor.capture("prefill", tables.rows, tables.slots, ["logits"])["logits"]
    assert at[3] == len(mine)
    assert relative(found[3], expected(file, cache, mine)) < TOLERANCE
    assert relative(found[0], expected(file, cache, others[0][: at[0]])) < TOLERANCE


def test_tokens_at_the_end_of_the_table_are_read_and_told_apart(
    executor: Executor, file: Path, cache: str
) -> None:
    """The table has 178 MB as Q8_0, and 128 MB are what WebGPU promises for a buffer: it lies in sections."""
    ids = (2, 262_143, 255_973, 131_072, 5279)
    assert relative(fed(executor, ids, (5,), place=0), expected(file, cache, ids)) < TOLERANCE


def test_a_prompt_with_one_two_and_no_begin_tokens_gives_what_reports_give(executor: Executor) -> None:
    """What a begin token that is added twice, or never, would change: 0.5 of the logits, or the whole answer."""
    france = [818, 5279, 529, 7001, 563]
    for begin, best, logit in (((2,), 506, 19.091), ((2, 2), 506, 19.592), ((), 7001, None)):
        logits = fed(executor, [*begin, *france], (len(begin) + 5,), place=1)
        assert int(logits.argmax()) == best
        # Their figures are of float32; keys and values in f16 move a logit of 19 by up to 0.02.
        assert logit is None or logits[best] == pytest.approx(logit, abs=0.02)


def test_behind_a_begin_that_was_kept_the_logits_are_those_of_a_whole_run(
    engine: Engine, file: Path, cache: str, long: tuple[tuple[int, ...], np.ndarray]
) -> None:
    ids, logits = long
    options = {"max_tokens": 1, "temperature": 0, "logprobs": 20, "ignore_eos": True}
    engine.generate(ids[:650], **options)
    found = engine.generate(ids, **options)
    assert found.usage.cached_tokens >= 640
    shares = logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
    for token, logprob in found.logprobs[0].top:
        # The logit may be off by its tolerance, and so may the sum of all.
        assert abs(logprob - shares[token]) < 2 * TOLERANCE * np.abs(logits).max()


def test_greedy_text_is_that_of_transformers_alone_and_together_and_again(engine: Engine) -> None:
    requests = [
        GenerateRequest(case["prompt"], max_tokens=min(24, len(case["ids"])), temperature=0, logprobs=2)
        for case in GREEDY
    ]
    alone = [engine.submit(one).result(600) for one in requests]
    together = [handle.result(600) for handle in [engine.submit(one) for one in requests]]
    for case, first, second in zip(GREEDY, alone, together, strict=True):
        assert first.usage.prompt_tokens == second.usage.prompt_tokens == len(case["prompt_ids"])
        assert second.usage.cached_tokens  # of its own first run, or of the begin token's
        for found in (first, second):
            assert found.ids == tuple(case["ids"][: len(found.ids)])
            assert case["text"].startswith(found.text)
        assert len(case["ids"]) > 24 or first.text == case["text"]


FIRST_TOKEN = """
import os, sys, time
if sys.argv[3] == "cold":  # what the system has read of the file is forgotten, as after a start
    with open(sys.argv[1], "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
start = time.perf_counter()
from doppler_core.settings import EngineSettings
from doppler_plugins import open_engine
with open_engine(sys.argv[1], EngineSettings(device=sys.argv[2], cache_dir=sys.argv[4])) as engine:
    opened = time.perf_counter() - start
    engine.generate("The capital of France is", max_tokens=1, temperature=0)
    times = os.times()
    print(f"{opened:.2f} {time.perf_counter() - start:.2f} {times.user + times.system:.2f}")
"""


@pytest.mark.parametrize("device", ["numpy", "wgpu"])
def test_the_first_token_comes_soon(file: Path, tmp_path: Path, device: str) -> None:
    """Cold: neither the file nor anything of a cache is there. The figures are for people: machines are too different
    and too busy for the bars, 20 s cold and 4 s warm, to be held to here; a tokenizer made anew for each process, or
    weights that are read twice, take longer than this."""
    for state, most in (("cold", 80), ("warm", 60)):
        command = [sys.executable, "-c", FIRST_TOKEN, str(file), device, state, str(tmp_path)]
        out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
        opened, first, busy = (float(word) for word in out.split())
        print(
            f"{device} {state}: opened in {opened} s, first token after {first} s, {busy} s of processor time"
        )
        assert first < most
