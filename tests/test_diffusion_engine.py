"""DiffusionGemma through the engine: every recorded run of transformers, token for token, on both executors."""

import itertools
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from diffusion_golden import CANVAS, CHUNK, ROOM, RUNS, SLOTS, Run, Seat, Tiny, tiny

from doppler_core.device.adapters import choose_adapter
from doppler_core.device.executor import Executor
from doppler_core.device.numpy_executor import NumpyExecutor
from doppler_core.device.wgpu_executor import open_wgpu
from doppler_core.engine.abilities import with_chat
from doppler_core.engine.choice import Defaults
from doppler_core.engine.engine import Engine
from doppler_core.engine.model_type import Opened
from doppler_core.engine.request import Canvas, GenerateRequest
from doppler_core.manifest.load import load_manifest, manifest_json
from doppler_core.plan.canvas import CanvasStep
from doppler_core.plan.check import check
from doppler_core.plan.cost import gpu_resident, numpy_resident
from doppler_core.plan.profile import apply_profile, profiles
from doppler_core.text.chat import choose_format
from doppler_core.text.tokenizer import Tokenizer
from doppler_plugins.model_types.diffusion import DiffusionModelType


@dataclass(frozen=True)
class Recorded:
    """The noise that fell in a run."""

    run: Run

    def first(self, canvas: int) -> npt.NDArray[np.integer]:
        return self.run.first[canvas]

    def step(self, canvas: int, step: int) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.integer]]:
        number = np.flatnonzero(self.run.canvas == canvas)[step - 1]
        return self.run.u[number], self.run.token[number]


@pytest.fixture(scope="module")
def of(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return tiny("diffusion", tmp_path_factory.mktemp("diffusion"))


@pytest.fixture(scope="module")
def executors(of: Tiny) -> Iterator[dict[str, Executor]]:
    rows = max(CHUNK, SLOTS * CANVAS)
    plan = check(apply_profile(of.plan, profiles()["software"]))
    made: dict[str, Executor] = {
        "numpy": NumpyExecutor(of.plan, of.tensors, max_rows=rows, max_slots=SLOTS),
        "wgpu": open_wgpu(plan, of.tensors, choose_adapter("wgpu:llvmpipe"), max_rows=rows, max_slots=SLOTS),
    }
    yield made
    for executor in made.values():
        executor.close()


@pytest.fixture(params=["numpy", "wgpu"])
def executor(request: pytest.FixtureRequest, executors: dict[str, Executor]) -> Executor:
    return executors[request.param]


@contextmanager
def opened(of: Tiny, executor: Executor, settings: dict[str, object]) -> Iterator[Engine]:
    """An engine whose manifest says this of its canvases. The plan is the same whatever it says."""
    data = manifest_json(of.manifest)
    data["inference"]["diffusionGemma"] |= settings
    manifest = load_manifest(data)
    tokenizer = Tokenizer(of.folder / "tokenizer.json", manifest.architecture.vocab_size or 0)
    chat_format = choose_format(None, {}, tokenizer)
    model_type = DiffusionModelType()
    made = Opened(executor, of.plan, tokenizer, manifest, ROOM, {}, Defaults(), chat_format)
    with Engine(
        model_id="tiny",
        identity="0",
        capabilities=with_chat(model_type.capabilities(manifest), chat_format, tokenizer),
        plan=of.plan,
        driver=model_type.driver(made),
        device=executor.device,
        memory_bytes=0,
        closing=lambda: None,
        tokenizer=tokenizer,
    ) as engine:
        yield engine


def again(of: Tiny, run: Run) -> GenerateRequest:
    """A recorded run, as a request."""
    ids = tuple(of.golden["ids"].tolist())
    return GenerateRequest(ids, max_tokens=run.max_tokens, noise=Recorded(run), drafts=True)


def same_draft(run: Run, number: int, canvas: Canvas) -> bool:
    """Whether a step's draft is what transformers had."""
    return (
        canvas.tokens == tuple(run.made[number].tolist())
        and canvas.accepted == tuple(run.accepted[number].tolist())
        and canvas.ids == tuple(run.likeliest[number].tolist())
    )


def answer_of(run: Run) -> list[int]:
    """What the run made, up to its end token."""
    made, ends = run.answer.tolist(), run.settings["eosTokenIds"]
    return list(itertools.takewhile(lambda token: token not in ends, made))[: run.max_tokens]


@pytest.mark.parametrize("name", RUNS)
def test_a_recorded_run_is_generated_token_for_token(of: Tiny, executor: Executor, name: str) -> None:
    run = of.runs[name]
    with opened(of, executor, run.settings) as engine:
        deltas = list(engine.submit(again(of, run)))
    canvases = [delta.canvas for delta in deltas if delta.canvas is not None]
    assert len(canvases) == len(run.made)
    for number, canvas in enumerate(canvases):
        assert same_draft(run, number, canvas), number
    assert [token for delta in deltas for token in delta.ids] == answer_of(run)
    usage = deltas[-1].usage
    assert usage is not None
    assert usage.denoising_steps == len(run.made)
    assert usage.tokens_per_forward == pytest.approx(run.tokens_per_forward)


def asked(of: Tiny, number: int, **options: object) -> GenerateRequest:
    """Few steps, as rounding decides the later ones of a model with random weights: a difference grows fourfold with each
    that is conditioned on the one before."""
    ids = tuple(of.golden["ids"].tolist()[: 20 + 9 * number])
    return GenerateRequest(ids, **{"seed": number, "max_tokens": CANVAS + 4, "steps": 3, "ignore_eos": True, **options})  # type: ignore[arg-type]  # fmt: skip


def test_an_answer_is_of_the_seed_alone_whatever_company_or_executor(
    of: Tiny, executors: dict[str, Executor]
) -> None:
    found = []
    for executor in executors.values():
        with opened(of, executor, {}) as engine:
            alone = [engine.submit(asked(of, seed)).result(60).ids for seed in range(3)]
            handles = [engine.submit(asked(of, seed)) for seed in (0, 1, 2, 1)]
            together = [handle.result(60).ids for handle in handles]
        assert together == [*alone, alone[1]]
        found.append(alone)
    assert found[0] == found[1]
    assert [len(ids) for ids in found[0]] == [CANVAS + 4] * 3


def test_a_seed_gives_the_same_canvases_and_another_one_others(of: Tiny, executor: Executor) -> None:
    """BUG-41. A negative seed is the bits of its two's complement."""
    with opened(of, executor, {}) as engine:
        first, again, other, last, negative = (
            [
                (one.canvas.ids, one.canvas.tokens, one.canvas.accepted)
                for one in engine.submit(asked(of, 1, seed=seed, max_tokens=1, steps=2, drafts=True))
                if one.canvas
            ]
            for seed in (7, 7, 8, 2**64 - 1, -1)
        )
    assert first == again
    assert last == negative
    assert len({tokens for (_, tokens, _), *_ in (first, other, last)}) == 3


@pytest.mark.parametrize("length", [31, 32, 33])
def test_a_canvas_sees_the_tokens_before_it_and_nothing_else_that_lies_at_its_place(
    of: Tiny, executor: Executor, length: int
) -> None:
    """BUG-41: padding before a canvas. Here there is none, but what a longer request has left, and a prompt may come in
    any parts."""
    ids, hidden = (2 * of.golden["ids"].tolist())[:length], of.golden["first"].shape[-1]
    logits = []
    for place, left, parts in ((0, 0, (length,)), (1, 70, (7, 1, length - 8))):
        seat = Seat(executor, place)
        seat.encode([9] * left)
        seat.length = 0
        for count in parts:
            seat.encode(ids[seat.length : seat.length + count])
        seat.begin(of.golden["tokens"], hidden)
        step, half = CanvasStep(1.0, 0, 1, 0.1), np.full(CANVAS, 0.5, np.float32)
        found = seat.denoise(step, half, of.golden["tokens"], ["tiles.0.logits"])
        logits.append(found["tiles.0.logits"])
    assert np.abs(logits[0] - logits[1]).max() < 1e-3, "sums in another order"


def test_greedy_canvases_need_no_seed_for_what_they_take(of: Tiny, executor: Executor) -> None:
    """The random tokens of positions that are not accepted are the seed's still."""
    with opened(of, executor, {"entropyBound": 1e6}) as engine:
        first, second = (
            [one.canvas for one in engine.submit(asked(of, 1, temperature=0, drafts=True)) if one.canvas]
            for _ in range(2)
        )
    assert first == second
    assert all(all(canvas.accepted) and canvas.tokens == canvas.ids for canvas in first)


def test_what_was_encoded_before_serves_again(of: Tiny, executor: Executor) -> None:
    with opened(of, executor, {}) as engine:
        first = engine.submit(asked(of, 1, max_tokens=CANVAS)).result(60)
        again = engine.submit(asked(of, 1, max_tokens=CANVAS)).result(60)
    assert first.ids == again.ids
    assert (first.usage.cached_tokens, again.usage.cached_tokens) == (0, first.usage.prompt_tokens - 1)


def test_an_executor_holds_what_its_plan_says(executors: dict[str, Executor], of: Tiny) -> None:
    """NumPy's row ops run together, so that their values can't share a buffer as the plan's do; it expands weights of one
    axis beside. A GPU has uniforms of 256 bytes, hundreds of them."""
    assert executors["numpy"].memory_bytes == pytest.approx(numpy_resident(of.plan), rel=0.05)
    gpu = executors["wgpu"]
    assert 0 <= gpu.memory_bytes - gpu_resident(gpu._plan) < 100_000  # type: ignore[attr-defined]


def test_memory_is_the_same_after_any_number_of_steps(of: Tiny, executor: Executor) -> None:
    def peak(engine: Engine, steps: int) -> int:
        tracemalloc.reset_peak()
        engine.submit(asked(of, 1, max_tokens=CANVAS, steps=steps)).result(60)
        return tracemalloc.get_traced_memory()[1]

    with opened(of, executor, {"confidenceThreshold": -1.0}) as engine:
        peak(engine, 2)
        tracemalloc.start()
        peak(engine, 2)
        few, many = peak(engine, 2), peak(engine, 12)
        tracemalloc.stop()
    # A canvas's soft embedding is 4 kB, its logits 32 kB: what ten steps kept of either would show.
    assert many - few < 20_000


def test_a_step_is_one_submit_that_makes_no_buffer_and_gives_back_a_line_for_each_canvas(
    of: Tiny, executors: dict[str, Executor], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = executors["wgpu"]
    submits: list[int] = []
    sizes: list[int] = []
    buffers: list[int] = []

    def noted(whole: Callable[..., Any], note: Callable[..., object]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            note(*given, **named)
            return whole(*given, **named)

        return call

    with opened(of, gpu, {"confidenceThreshold": -1.0}) as engine:
        engine.submit(asked(of, 1, max_tokens=CANVAS)).result(60)  # pipelines, staging
        readback, device = gpu._readback, gpu._gpu.device  # type: ignore[attr-defined]
        monkeypatch.setattr(readback, "submit", noted(readback.submit, lambda _: submits.append(1)))
        monkeypatch.setattr(readback, "read", noted(readback.read, lambda _, size, __: sizes.append(size)))
        monkeypatch.setattr(
            device, "create_buffer", noted(device.create_buffer, lambda **_: buffers.append(1))
        )
        engine.submit(asked(of, 1, max_tokens=CANVAS, steps=9)).result(60)
    assert sizes == [0, *[16] * 9], "one of the prompt's last token, nine of the canvas"
    assert len(submits) == len(sizes)
    assert buffers == []
