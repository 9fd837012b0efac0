"""Generating with the tiny Gemma 3 on both executors: the golden's tokens, whatever company, chunk, group or cache."""

import asyncio
import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from doppler_core.engine import assembly
from doppler_core.engine.engine import Engine
from doppler_core.engine.request import GenerateRequest
from doppler_core.errors import InputError, TextTooLongError
from doppler_core.settings import EngineSettings
from doppler_plugins.opening import open_engine

CHECKPOINT = Path(__file__).parent / "goldens" / "gemma3"
TEXTS = [
    "the last train",
    "",
    "salt",
    "A kettle sings before the water boils. " * 4,
    "12 eggs\n\n\tflour",
    "é",
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module", params=["numpy-16", "numpy-256", "wgpu-16"])
def engine(request: pytest.FixtureRequest, cache: str) -> Iterator[Engine]:
    """On a device, in chunks of so many rows; small ones make rings that turn within the context."""
    device, chunk = request.param.split("-")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assembly, "_CHUNK", int(chunk))
        with open_engine(CHECKPOINT, EngineSettings(device=device, cache_dir=cache)) as opened:
            yield opened


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(CHECKPOINT / "golden.npz") as data:
        return dict(data)


def test_the_likeliest_tokens_are_those_of_the_golden(engine: Engine, golden: dict[str, np.ndarray]) -> None:
    result = engine.generate(
        golden["ids"].tolist(), max_tokens=len(golden["made"]), temperature=0, ignore_eos=True
    )
    assert list(result.ids) == golden["made"].tolist()


def test_an_answer_is_the_same_alone_and_among_others_and_a_second_time(engine: Engine) -> None:
    requests = [GenerateRequest(text, max_tokens=20, temperature=0, ignore_eos=True) for text in TEXTS]
    alone = [engine.submit(one).result(60).ids for one in requests]
    handles = [engine.submit(one) for one in (*requests, *reversed(requests))]
    together = [handle.result(60).ids for handle in handles]
    assert together == [*alone, *reversed(alone)]


def test_drawn_tokens_are_of_the_seed_alone(engine: Engine) -> None:
    request = GenerateRequest("salt", max_tokens=20, temperature=1.3, top_k=40, seed=11, ignore_eos=True)
    alone = engine.submit(request).result(60).ids
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: engine.submit(request).result(60).ids, range(8))) == {alone}
    other = engine.generate("salt", max_tokens=20, temperature=1.3, top_k=40, seed=12, ignore_eos=True).ids
    assert other != alone


@pytest.mark.parametrize(
    "settings", [{"temperature": 1e-6}, {"top_k": 1}, {"top_p": 0}, {"top_p": 1e-6}, {"min_p": 1}], ids=str
)
def test_settings_that_leave_only_the_likeliest_token_are_greedy(
    engine: Engine, golden: dict[str, np.ndarray], settings: dict[str, float]
) -> None:
    options = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "max_tokens": 8, "seed": 1, **settings}
    found = engine.generate(golden["ids"].tolist(), ignore_eos=True, **options)
    assert list(found.ids) == golden["made"][:8].tolist()


@pytest.mark.parametrize("kept", [512, 513, 262_144, 10**9])
def test_a_top_k_of_the_whole_vocabulary_or_more_is_no_limit(engine: Engine, kept: int) -> None:
    options = {"max_tokens": 8, "temperature": 1.5, "top_p": 1.0, "seed": 2**31, "ignore_eos": True}
    assert (
        engine.generate("salt", top_k=kept, **options).ids == engine.generate("salt", top_k=0, **options).ids
    )


def test_a_new_engine_draws_what_one_in_use_draws(engine: Engine, cache: str) -> None:
    """On NumPy what the device draws, as the noise is of the seed, the position and the token alone."""
    request = GenerateRequest("salt", max_tokens=20, temperature=1.3, top_k=40, seed=42, ignore_eos=True)
    warm = engine.submit(request).result(60).ids
    with open_engine(CHECKPOINT, EngineSettings(device="numpy", cache_dir=cache, slots=1)) as fresh:
        assert fresh.submit(request).result(60).ids == warm


async def test_tasks_and_a_stream_left_half_read_disturb_nobody(engine: Engine) -> None:
    requests = [GenerateRequest(text, max_tokens=10, temperature=0, ignore_eos=True) for text in TEXTS]
    alone = [engine.submit(one).result(60).ids for one in requests]
    left = engine.submit(GenerateRequest("salt", temperature=0, ignore_eos=True))
    async for _ in left:
        break
    together = await asyncio.gather(*(engine.submit(one) for one in (*requests, *requests)))
    assert [result.ids for result in together] == [*alone, *alone]
    assert left.cancelled()


def test_a_conversation_goes_on_from_what_is_kept(engine: Engine) -> None:
    """Past the window of the sliding layers, several times over; the tokens are those of a whole run."""
    ids, made = engine.tokenizer.encode(TEXTS[3]), []  # type: ignore[union-attr]
    for turn in range(4):
        result = engine.generate(ids, max_tokens=15, temperature=0, ignore_eos=True)
        assert result.usage.cached_tokens >= (len(ids) - 20 if turn else 0)
        made.append((tuple(ids), result.ids))
        ids = [*ids, *result.ids, *range(60, 70)]
    for number in range(engine.plan.largest.sequences):  # other texts take every place
        engine.generate([300 + number] * 30, max_tokens=30, temperature=0, ignore_eos=True)
    for prompt, answer in reversed(made):
        again = engine.generate(prompt, max_tokens=15, temperature=0, ignore_eos=True)
        assert again.ids == answer


def test_log_probabilities_are_of_the_tokens_made(engine: Engine) -> None:
    result = engine.generate("salt", max_tokens=6, temperature=0, logprobs=3, ignore_eos=True)
    assert [one.id for one in result.logprobs] == list(result.ids)
    for one in result.logprobs:
        assert one.top[0] == (one.id, one.logprob)
        assert all(first[1] >= second[1] for first, second in itertools.pairwise(one.top))
        assert one.logprob <= 0


def test_a_bias_chooses_and_forbids(engine: Engine) -> None:
    assert engine.generate("salt", max_tokens=4, temperature=0, logit_bias={77: 1000.0}).ids == (77,) * 4
    first = engine.generate("salt", max_tokens=1, temperature=0, ignore_eos=True).ids[0]
    banned = engine.generate(
        "salt", max_tokens=5, temperature=0, logit_bias={first: -float("inf")}, ignore_eos=True
    )
    assert first not in banned.ids


def test_a_presence_penalty_keeps_tokens_from_coming_again(engine: Engine) -> None:
    ids = engine.generate("salt", max_tokens=30, temperature=0, presence_penalty=1000.0, ignore_eos=True).ids
    assert len(set(ids)) == 30


def test_numbers_of_numpy_are_numbers(engine: Engine) -> None:
    plain = {"max_tokens": 12, "seed": 5, "temperature": 2.0, "top_k": 40, "stop_ids": (9,)}
    numpys = {
        "max_tokens": np.int64(12),
        "seed": np.uint8(5),
        "temperature": np.float32(2),
        "top_k": np.int16(40),
        "stop_ids": (np.int32(9),),
    }
    wanted = engine.generate("salt", ignore_eos=True, **plain).ids
    assert engine.generate("salt", ignore_eos=True, **numpys).ids == wanted


def test_streams_and_waits_agree(engine: Engine) -> None:
    request = GenerateRequest("salt", max_tokens=40, temperature=1.0, seed=3)
    deltas = list(engine.submit(request))
    assert "".join(delta.text for delta in deltas) == engine.submit(request).result(60).text


def test_a_lower_context_length_is_the_bound(cache: str) -> None:
    settings = EngineSettings(device="numpy", context_length=32, slots=2, cache_dir=cache)
    with open_engine(CHECKPOINT, settings) as short:
        assert short.capabilities.context_length == 32
        assert short.plan.largest.sequences == 2
        with pytest.raises(TextTooLongError, match=r"the context 32: .* larger context_length, up to \d+$"):
            short.generate([5] * 40)
        assert len(short.generate([5] * 30, temperature=0, ignore_eos=True).ids) == 2


def test_a_generating_model_does_not_embed(engine: Engine) -> None:
    with pytest.raises(InputError, match="does not embed"):
        engine.embed(["x"])


def test_warming_up_changes_nothing(cache: str) -> None:
    with open_engine(CHECKPOINT, EngineSettings(device="numpy", slots=1, cache_dir=cache)) as fresh:
        fresh.warmup()
        warmed = fresh.generate("salt", max_tokens=8, temperature=0).ids
    with open_engine(CHECKPOINT, EngineSettings(device="numpy", slots=1, cache_dir=cache)) as fresh:
        assert fresh.generate("salt", max_tokens=8, temperature=0).ids == warmed
