"""How answers of canvases end before their time: at a stop text, given up at any step, with their engine closed."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from doppler_core.engine.request import GenerateRequest
from doppler_core.errors import EngineClosedError
from tests.canvas_fakes import LENGTH, CanvasOpening, Wishes, answer, opening, tokens_of
from tests.causal_fakes import prompt


@pytest.fixture
def opened(causal_tokenizer: Path) -> Iterator[CanvasOpening]:
    with opening(causal_tokenizer) as open_:
        yield open_


@pytest.mark.parametrize("drafts", [False, True])
def test_a_stop_text_ends_an_answer_wherever_it_lies_among_its_canvases(
    opened: CanvasOpening, drafts: bool
) -> None:
    """Cut out of what the answer would be, so that many reach from one canvas into the next; no canvas follows the one in
    which it is whole, and nothing streams that is not in the text."""
    model, executor = opened()
    across = 0
    for number in range(60):
        draw = random.Random(number)
        ids, most = prompt(number, draw.randrange(1, 60)), draw.randrange(1, 30)
        whole = model.generate(ids, max_tokens=most, seed=number).text
        begin = draw.randrange(len(whole)) if whole else 0
        stop = whole[begin : begin + draw.randrange(1, 20)]
        if not stop:
            continue
        request = GenerateRequest(ids, max_tokens=most, seed=number, stop=stop, drafts=drafts)
        handle = model.submit(request)
        deltas = list(handle)
        result = handle.result()
        assert result.text == "".join(delta.text for delta in deltas) == whole[: whole.index(stop)]
        assert (result.finish_reason, result.stop) == ("stop", stop)
        assert tuple(token for delta in deltas for token in delta.ids) == result.ids
        canvases = answer(executor.size, ids, len(result.ids), Wishes(seed=number))
        assert result.usage.denoising_steps == sum(map(len, canvases))
        before = model.generate(ids, max_tokens=LENGTH * (len(canvases) - 1), seed=number).text
        across += len(result.text) < len(before) < len(result.text) + len(stop)
    assert across > 5


def test_a_request_may_be_given_up_at_any_time_and_what_it_left_serves_rightly(opened: CanvasOpening) -> None:
    """While its prompt is encoded, between the steps of a canvas, while a finished one is encoded."""
    ids = prompt(1, 20)
    model, executor = opened(seconds=0.0005, row_seconds=0.001)
    expected = tokens_of(answer(executor.size, ids, 30, Wishes(seed=1)), 30)
    made: list[int] = []
    for steps in range(0, 44, 4):
        mark = len(executor.log)
        handle = model.submit(GenerateRequest(ids, max_tokens=60, seed=1))
        others = [model.submit(GenerateRequest(prompt(50, 10), max_tokens=12, seed=2)) for _ in range(2)]
        while len(executor.log) < mark + steps:
            time.sleep(0.0005)
        handle.cancel()
        for other in others:
            known = answer(executor.size, prompt(50, 10), 12, Wishes(seed=2))
            assert list(other.result(10).ids) == tokens_of(known, 12)
        made = [token for delta in handle for token in delta.ids]
        assert made == tokens_of(answer(executor.size, ids, 60, Wishes(seed=1)), 60)[: len(made)]
        assert list(model.generate(ids, max_tokens=30, seed=1).ids) == expected
    assert made, "the last was given up behind its first canvas"


def test_closing_an_engine_fails_the_canvases_that_are_under_way(opened: CanvasOpening) -> None:
    model, _ = opened(seconds=0.002)
    ids = prompt(1, 30)
    handles = [model.submit(GenerateRequest(ids, max_tokens=60, drafts=True)) for _ in range(6)]
    reading = iter(handles[0])
    next(reading)
    model.close()
    for handle in handles[1:]:
        with pytest.raises(EngineClosedError):
            handle.result(5)
    with pytest.raises(EngineClosedError):
        list(reading)
