"""Canvases of one answer: their steps' settings, when they are done, what they refuse, and what comes of a whole one."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from chat_tokenizers import small_tokenizer

from doppler_core.engine.canvas_choice import choose_canvases
from doppler_core.engine.canvas_job import CanvasJob
from doppler_core.engine.canvases import CanvasChoice, Sketch
from doppler_core.engine.generation import Ending
from doppler_core.engine.prompts import Prompts
from doppler_core.engine.reply_reader import ReplyReader
from doppler_core.engine.request import GenerateRequest
from doppler_core.errors import InputError
from doppler_core.plan.canvas import ACCEPTED, ENTROPY, LIKELIEST, TOKEN
from doppler_core.plan.canvas_settings import CanvasSettings
from doppler_core.text.chat import Message, Text, Tool, ToolCall, format_named
from doppler_core.text.grammar import Regex
from doppler_core.text.tokenizer import Tokenizer
from tests.canvas_fakes import Recorded

SETTINGS = CanvasSettings(
    canvas_length=8,
    max_denoising_steps=48,
    max_new_tokens=256,
    t_min=0.4,
    t_max=0.8,
    entropy_bound=0.1,
    confidence_threshold=0.005,
    stability_threshold=1,
    pad_token_id=0,
    eos_token_ids=(1, 106),
    self_conditioning=True,
)


def choose(**asked: Any) -> CanvasChoice:
    return choose_canvases(GenerateRequest("", **asked), SETTINGS, 300)


def progress(entropy: float, changed: int) -> npt.NDArray[np.uint32]:
    return np.array([np.float32(entropy).view(np.uint32), changed, 0, 0], np.uint32)


def test_the_temperature_falls_over_the_steps_that_are_asked_for() -> None:
    whole, few, halved = choose(seed=1), choose(steps=4, seed=1), choose(temperature=0.5, seed=1)
    assert [whole.step(taken).temperature for taken in (0, 47)] == pytest.approx([0.8, 0.4 + 0.4 / 48])
    assert [few.step(taken).temperature for taken in range(4)] == pytest.approx([0.8, 0.7, 0.6, 0.5])
    assert [few.step(taken).left for taken in range(4)] == [4, 3, 2, 1]
    assert halved.step(0).temperature == pytest.approx(0.4)
    assert not halved.greedy


def test_temperature_0_takes_the_likeliest_tokens_of_the_same_schedule() -> None:
    choice = choose(temperature=0, seed=1)
    assert choice.greedy
    assert choice.step(0).greedy
    assert choice.step(0).temperature == pytest.approx(0.8)


@pytest.mark.parametrize("bounds", [(1e-9, 2e-9), (0.4, 0.8), (5e8, 1e9)])
@pytest.mark.parametrize("asked", [2.0**-64, 1e-8, 1.0, 3e38])
def test_any_temperature_is_one_that_f32_has_and_can_divide_by(
    bounds: tuple[float, float], asked: float
) -> None:
    its = replace(SETTINGS, t_min=bounds[0], t_max=bounds[1])
    choice = choose_canvases(GenerateRequest("", temperature=asked), its, 300)
    for taken in (0, 47):
        found = np.float32(choice.step(taken).temperature)
        smallest = np.finfo(np.float32).tiny
        assert smallest < found < 1 / smallest


@pytest.mark.parametrize(
    ("stability", "changes", "last"),
    [
        (0, [8, 8], 1),
        (1, [8, 0], 2),
        (1, [8, 3, 1, 0], 4),
        (2, [8, 0, 0], 3),
        (2, [8, 0, 1, 0, 0], 5),
        (1, [8, 1, 1, 1, 1, 1], 6),
    ],
)
def test_a_canvas_is_done_once_its_likeliest_tokens_stay_and_are_sure(
    stability: int, changes: list[int], last: int
) -> None:
    choice = replace(choose(steps=6), settings=replace(SETTINGS, stability_threshold=stability))
    sketch = Sketch(choice, 0, 10, 8)
    done = [sketch.note(progress(0.004, changed)) for changed in changes]
    assert done.index(True) + 1 == last


@pytest.mark.parametrize(("entropy", "done"), [(0.0049, True), (0.00501, False), (math.inf, False)])
def test_a_canvas_that_is_not_sure_goes_on_however_still_it_is(entropy: float, done: bool) -> None:
    sketch = Sketch(choose(), 0, 10, 8)
    assert [sketch.note(progress(entropy, 0)) for _ in range(3)] == [done] * 3


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"top_k": 5}, "top_k=5: canvases are drawn by temperature, steps and seed alone"),
        ({"top_p": 0.9}, "top_p=0.9"),
        ({"min_p": 0.1}, "min_p=0.1"),
        ({"presence_penalty": 0.5}, "presence_penalty=0.5"),
        ({"frequency_penalty": 0.5}, "frequency_penalty=0.5"),
        ({"repetition_penalty": 1.1}, "repetition_penalty=1.1"),
        ({"logit_bias": {1: 2.0}}, "logit_bias: canvases"),
        ({"logprobs": 0}, "logprobs=0: .* drafts show entropies"),
        ({"mask": lambda: None}, "mask: nothing limits a canvas"),
        ({"grammar": Regex("a")}, "grammar: nothing limits a canvas"),
        ({"tool_choice": "none", "tools": ({"name": "look"},)}, "tool_choice='none': leave the tools out"),
        (
            {"constrain_tools": True, "tools": ({"name": "look"},)},
            "constrain_tools=True: nothing limits a canvas",
        ),
        ({"tool_choice": "required"}, "tool_choice='required': .* expected 'auto'"),
        ({"steps": 49}, "steps=49: this model takes 48 at most"),
    ],
)
def test_what_canvases_cannot_be_held_to_is_refused(asked: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        choose(**asked)


def test_what_asks_for_nothing_is_not_refused() -> None:
    choose(top_k=0, top_p=1.0, min_p=0.0, presence_penalty=0, frequency_penalty=0.0, repetition_penalty=1.0,
           logit_bias={}, tool_choice="none", steps=48)  # fmt: skip


def test_recorded_shares_of_1_minus_a_hair_stay_below_1() -> None:
    """A number that float64 has below 1 may be 1 in float32, behind all tokens."""
    noise = Recorded(1, 8)
    shares = np.array([0.0, 0.5, 1 - 2.0**-53, 0.25, 0, 0, 0, 0])
    noise.step = lambda canvas, step: (shares, np.arange(8))  # type: ignore[method-assign]
    lines = Sketch(choose(noise=noise), 0, 10, 8).noise()
    u = lines[:, 0].copy().view(np.float32)
    assert (u < 1).all()
    assert u[:4].tolist() == [0.0, 0.5, 1 - 2.0**-24, 0.25]
    assert lines[:, 1].tolist() == list(range(8))


def whole_answer(
    tokenizer: Tokenizer, ids: list[int], ends: tuple[int, ...], reader: ReplyReader, limit: int = 100
) -> CanvasJob:
    """A job that has been given all of its answer in one canvas, padded behind its end."""
    settings = replace(SETTINGS, canvas_length=len(ids) + 4)
    job = CanvasJob(
        [1], replace(choose(), settings=settings), Ending(limit, frozenset(ends)), reader, 0.0, tokenizer
    )
    job.place(cached=0)
    job.prompt_done()
    job.begin(1, 1000)
    lines = np.zeros((len(ids) + 4, 4), np.uint32)
    lines[: len(ids), LIKELIEST] = ids
    lines[:, TOKEN], lines[:, ACCEPTED] = 7, 1
    lines[:, ENTROPY] = np.float32(0.25).view(np.uint32)
    for changed in (len(lines), 0):
        done = job.note(progress(0.001, changed))
        job.show(lines, done)
    assert done
    job.settle(lines)
    return job


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return small_tokenizer(tmp_path_factory.mktemp("tokenizer"), format_named("gemma4").marks)


def chat_reader(tokenizer: Tokenizer, *tools: Tool) -> ReplyReader:
    prompts = Prompts(tokenizer, format_named("gemma4"))
    return prompts.of(GenerateRequest((Message("user", (Text("?"),)),), tools=tools, thinking=True)).reader


def spelled(tokenizer: Tokenizer, *parts: str) -> list[int]:
    """Control tokens by their names, anything else as text."""
    found: list[int] = []
    for part in parts:
        number = tokenizer.token_id(part)
        found += tokenizer.encode(part, bare=True) if number is None else [number]
    return found


def test_repeated_text_of_a_canvas_is_kept_whole(tokenizer: Tokenizer) -> None:
    """BUG-41: an array of zeros is no loop, and what was made is valid."""
    said = '{"answers":{"q1":[0.0,0.0,0.0,0.95,0.05]}}'
    turn = tokenizer.token_id("<turn|>")
    assert turn is not None
    ids = [*spelled(tokenizer, "<|channel>", "thought\n", "<channel|>", said), turn]
    job = whole_answer(tokenizer, ids, (turn,), chat_reader(tokenizer))
    result = job.result()
    assert json.loads(result.text) == json.loads(said)
    assert (result.finish_reason, result.stop, list(result.ids)) == ("stop", turn, ids[:-1])


def test_thoughts_and_calls_are_read_from_a_whole_canvas(tokenizer: Tokenizer) -> None:
    turn = tokenizer.token_id("<turn|>")
    assert turn is not None
    mark = '<|"|>'
    ids = [
        *spelled(tokenizer, "<|channel>", "thought\nI look.", "<channel|>", "<|tool_call>", "call:look{at:", mark),
        *spelled(tokenizer, "moon", mark, "}", "<tool_call|>"),
        turn,
    ]  # fmt: skip
    look = Tool("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}})
    job = whole_answer(tokenizer, ids, (turn,), chat_reader(tokenizer, look))
    deltas, result = list(job.news()), job.result()
    assert result.reasoning == "I look."
    assert [(call.name, dict(call.arguments)) for call in result.tool_calls] == [("look", {"at": "moon"})]
    assert isinstance(result.tool_calls[0], ToolCall)
    assert result.finish_reason == "tool_calls"
    assert [delta.canvas is not None for delta in deltas] == [True, True, False]
    assert deltas[-1].reasoning == "I look."
    assert deltas[-1].ids == result.ids


def test_what_a_canvas_says_of_calls_is_text_where_nothing_can_be_called(tokenizer: Tokenizer) -> None:
    """Nothing keeps a canvas from it, and nobody is to wait for the result of a call that was never offered."""
    turn = tokenizer.token_id("<turn|>")
    assert turn is not None
    said = spelled(tokenizer, "Well, ", "<|tool_call>", "call:look{at:", '<|"|>', "moon", '<|"|>', "}", "<tool_call|>", " it is.")  # fmt: skip
    for ids in ([*said, turn], [*said[: said.index(tokenizer.token_id("<tool_call|>") or 0)], turn]):
        result = whole_answer(tokenizer, ids, (turn,), chat_reader(tokenizer)).result()
        assert result.text.startswith("Well, call:look{at:moon}")
        assert (result.tool_calls, result.invalid_tool_calls) == ((), ())
        assert result.finish_reason == "stop"


def test_padding_is_no_token_of_the_answer(tokenizer: Tokenizer) -> None:
    ids = spelled(tokenizer, "two words")
    ended = whole_answer(tokenizer, [*ids, 1], (1,), ReplyReader(tokenizer)).result()
    assert ended.usage.completion_tokens == len(ids)
    assert ended.usage.tokens_per_forward == (len(ids) + 1) / 2
    cut = whole_answer(tokenizer, ids, (1,), ReplyReader(tokenizer), limit=len(ids) + 3).result()
    assert cut.usage.completion_tokens == len(ids) + 3, "without an end, padding is what the model says"
    assert cut.usage.tokens_per_forward == len(ids) / 2


def test_a_draft_says_what_became_of_each_position(tokenizer: Tokenizer) -> None:
    ids = spelled(tokenizer, "two words")
    first, second, _ = whole_answer(tokenizer, [*ids, 1], (1,), ReplyReader(tokenizer)).news()
    assert first.canvas is not None
    assert second.canvas is not None
    assert (first.canvas.step, first.canvas.steps, first.canvas.done) == (1, 48, False)
    assert (second.canvas.step, second.canvas.done, second.canvas.text) == (2, True, "two words")
    assert (any(first.canvas.settled), all(second.canvas.settled)) == (False, True)
    assert (second.canvas.entropy, second.canvas.accepted_share) == (0.25, 1.0)
    assert set(second.canvas.tokens) == {7}
    assert (second.text, second.ids) == ("", ())


def test_tokens_per_second_of_one_canvas_are_timed_from_the_prompts_end(tokenizer: Tokenizer) -> None:
    timings = whole_answer(tokenizer, spelled(tokenizer, "two words", "<turn|>"), (), ReplyReader(tokenizer), 3).result().timings  # fmt: skip
    assert timings.decode > 0
    assert timings.tokens_per_second == pytest.approx(3 / timings.decode)
