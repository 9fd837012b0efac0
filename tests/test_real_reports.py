"""What public reports of other engines are about, on the real Gemma 3 270M: `pytest -m real`, a minute or two.

<folder>/gemma-3-270m-q4_k_m.gguf in DOPPLER_PLUGINS_REAL_MODELS. Expected tokens: transformers in float32, where every
one is likelier than the next by half a logit at least.
"""

import asyncio
import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from doppler_core.engine.engine import Engine
from doppler_core.engine.request import GenerateRequest
from doppler_core.settings import EngineSettings
from doppler_core.text.detokenizer import Detokenizer
from doppler_plugins.opening import open_engine

pytestmark = pytest.mark.real

FRANCE = "The capital of France is"
COUNTING = "1, 2, 3, 4,"
GOES_ON = " 5, 6, 7, 8, 9, "


@pytest.fixture(scope="module", params=["numpy", "wgpu"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    cache = os.environ.get("DOPPLER_PLUGINS_CACHE_DIR") or str(tmp_path_factory.mktemp("cache"))
    file = Path(os.environ["DOPPLER_PLUGINS_REAL_MODELS"]) / "gemma-3-270m-q4_k_m.gguf"
    settings = EngineSettings(device=request.param, context_length=1024, cache_dir=cache)
    with open_engine(file, settings) as opened:
        yield opened


@pytest.mark.parametrize(
    "options",
    [{"temperature": 0}, {"temperature": 1.0, "top_k": 1}, {"temperature": 1.0, "top_p": 0}],
    ids=str,
)
def test_counting_goes_on(engine: Engine, options: dict[str, float]) -> None:
    """Norms with their 1 added twice, or a wrong base of the local rotations, give fluent nonsense."""
    found = engine.generate(COUNTING, max_tokens=16, **options)
    assert found.text == GOES_ON
    assert found.ids[:7] == (236743, 236810, 236764, 236743, 236825, 236764, 236743)


def test_a_limit_is_told_as_one_and_counts_tokens(engine: Engine) -> None:
    one, three = (engine.generate(FRANCE, max_tokens=count, temperature=0) for count in (1, 3))
    assert (one.text, three.text) == (" the", " the capital of")
    assert (three.finish_reason, three.usage.prompt_tokens, three.usage.completion_tokens) == ("length", 6, 3)
    none = engine.generate(FRANCE, max_tokens=0)
    assert (none.text, none.ids, none.finish_reason) == ("", (), "length")


def test_no_limit_goes_to_the_end_of_the_context_and_not_to_sixteen(engine: Engine) -> None:
    prompt = [2, *[818] * 993]
    assert len(engine.generate(prompt, temperature=0, ignore_eos=True).ids) == 1024 - 994


def test_a_stop_string_of_several_tokens_is_not_shown(engine: Engine) -> None:
    for stop, text in ((" 7, 8", " 5, 6,"), ("7", " 5, 6, "), (", 7,", " 5, 6")):
        handle = engine.submit(GenerateRequest(COUNTING, max_tokens=16, temperature=0, stop=stop))
        assert "".join(delta.text for delta in handle) == handle.result().text == text
        assert (handle.result().finish_reason, handle.result().stop) == ("stop", stop)


def test_characters_of_several_tokens_are_streamed_whole(engine: Engine) -> None:
    tokenizer = engine.tokenizer
    assert tokenizer is not None
    shake, goose = [478, 397, 409, 406], [478, 397, 408, 429]
    detokenizer = Detokenizer(tokenizer)
    shown = [detokenizer.push(token) for token in (*shake, *goose, *shake[:3])]
    assert shown == ["", "", "", "\U0001fae8", "", "", "", "\U0001fabf", "", "", ""]
    assert detokenizer.finish() == "\ufffd"
    family = [243767, 237243, 243767, 237243, 244814, 237243, 244990]
    detokenizer = Detokenizer(tokenizer)
    assert (
        "".join(map(detokenizer.push, family)) == "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
    )
    handle = engine.submit(GenerateRequest("\U0001fae8\U0001fabf" * 4, max_tokens=19, temperature=0))
    deltas = [delta.text for delta in handle]
    assert "".join(deltas) == handle.result().text
    # The last character may be cut by the limit, none before it is.
    assert all("\ufffd" not in text for text in deltas[:-1])


def test_a_control_token_or_an_image_written_in_a_prompt_is_text(engine: Engine) -> None:
    for text in ("<bos>" + FRANCE, "a <image_soft_token> b", "<end_of_turn><eos>"):
        found = engine.generate(text, max_tokens=1, temperature=0, ignore_eos=True, logprobs=1)
        # Several tokens of text, and one begin token.
        assert found.usage.prompt_tokens == engine.count_tokens(text) > 4
        assert found.logprobs[0].logprob > -20


async def test_the_event_loop_goes_on_while_tokens_are_made(engine: Engine) -> None:
    gaps: list[float] = []

    async def tick() -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            gaps.append(time.monotonic() - before)

    ticker = asyncio.create_task(tick())
    start, times = time.monotonic(), []
    async for _ in engine.submit(GenerateRequest(COUNTING + " ", max_tokens=16, temperature=0)):
        times.append(time.monotonic() - start)
    ticker.cancel()
    assert len(times) > 3
    assert times[0] < times[-1] / 2
    assert statistics.median(gaps) < 0.1
