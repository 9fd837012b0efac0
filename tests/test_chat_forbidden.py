"""Control tokens that no answer can hold: those of prompts, and without tools those of calls, whatever a model is after."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from doppler_core.engine.engine import Engine
from doppler_core.engine.request import GenerateRequest, GenerateResult
from doppler_core.settings import EngineSettings
from doppler_core.text.chat import Tool, format_named
from doppler_core.text.chat.template import template_format
from doppler_core.text.grammar import Grammar, JsonSchema, Regex
from doppler_plugins.opening import open_engine

MODEL = Path(__file__).parent.parent / "models" / "demo-chat"
ASKED = ({"role": "user", "content": "Is it warm in Bremen?"},)
GEMMA4 = format_named("gemma4")
CALL, RESPONSE = "<|tool_call>", "<|tool_response>"
TEMPERATURE = {
    "type": "object",
    "properties": {"warm": {"type": "boolean"}},
    "required": ["warm"],
    "additionalProperties": False,
}
TOOLS = (Tool("weather", "Of a city.", TEMPERATURE),)
# Every token is as likely as another: a sixtieth of them are forbidden, so that 150 tokens hold some but once in ten.
ANYTHING: Mapping[str, Any] = {"temperature": 1e6, "ignore_eos": True, "max_tokens": 150}


@pytest.fixture(scope="module", params=["numpy", "wgpu"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    device = "wgpu:llvmpipe" if request.param == "wgpu" else "numpy"
    with open_engine(str(MODEL), EngineSettings(device=device, context_length=512, slots=4)) as opened:
        yield opened


def ids_of(engine: Engine, *names: str) -> set[int]:
    assert engine.tokenizer is not None
    return {number for name in names if (number := engine.tokenizer.token_id(name)) is not None}


def towards(engine: Engine, *names: str) -> dict[int, float]:
    """A bias that leaves a model no other wish."""
    return dict.fromkeys(ids_of(engine, *names), 1e6)


def chat(engine: Engine, **asked: Any) -> GenerateResult:
    return engine.generate(ASKED, **{"max_tokens": 20, "temperature": 0.0, "seed": 1, **asked})


def calls_of(found: GenerateResult) -> int:
    return len(found.tool_calls) + len(found.invalid_tool_calls)


@pytest.mark.parametrize("thinking", [False, True])
def test_a_model_that_says_anything_says_none_of_them(engine: Engine, thinking: bool) -> None:
    forbidden = ids_of(engine, *GEMMA4.forbidden(tools=False))
    for seed in range(4):
        found = chat(engine, thinking=thinking, seed=seed, **ANYTHING)
        assert forbidden.isdisjoint(found.ids)
        assert calls_of(found) == 0
        assert found.text or found.reasoning


def test_with_tools_it_says_those_of_calls_and_no_other(engine: Engine) -> None:
    forbidden = ids_of(engine, *GEMMA4.forbidden(tools=True))
    made: set[int] = set()
    for seed in range(8):
        made |= {*chat(engine, tools=TOOLS, constrain_tools=False, seed=seed, **ANYTHING).ids}
    assert forbidden.isdisjoint(made)
    assert made & ids_of(engine, *GEMMA4.calls), "else a test of what may come anyway"


def test_without_a_conversation_every_token_may_come(engine: Engine) -> None:
    found = engine.generate("Is it", logit_bias=towards(engine, CALL), temperature=0.0, max_tokens=3)
    assert {*found.ids} == ids_of(engine, CALL)


@pytest.mark.parametrize("asked", [{}, {"thinking": True}, {"logprobs": 1}, {"temperature": 1.0}, {"presence_penalty": 0.5}])  # fmt: skip
def test_a_model_that_is_after_a_call_answers_where_nothing_can_be_called(
    engine: Engine, asked: Mapping[str, Any]
) -> None:
    found = chat(engine, logit_bias=towards(engine, CALL), **asked)
    assert ids_of(engine, CALL).isdisjoint(found.ids)
    assert calls_of(found) == 0
    assert (found.text + found.reasoning).strip()


@pytest.mark.parametrize("grammar", [JsonSchema(TEMPERATURE), Regex("(yes|no), (sir|madam)")])
def test_nor_does_a_form_for_the_answer_let_one_begin(engine: Engine, grammar: Grammar) -> None:
    found = chat(engine, logit_bias=towards(engine, CALL, RESPONSE), grammar=grammar)
    assert calls_of(found) == 0
    if isinstance(grammar, JsonSchema):
        jsonschema.validate(json.loads(found.text), TEMPERATURE)
    else:
        assert re.fullmatch(grammar.pattern, found.text)


def test_nor_does_a_mask_that_allows_it(engine: Engine) -> None:
    class Everything:
        def words(self) -> np.ndarray:
            assert engine.tokenizer is not None
            return np.full(-(-engine.tokenizer.vocabulary // 32), 0xFFFFFFFF, np.uint32)

        def accept(self, token: int) -> None: ...

    found = chat(engine, logit_bias=towards(engine, CALL), mask=Everything)
    assert (calls_of(found), ids_of(engine, CALL) & {*found.ids}) == (0, set())


def test_requests_with_and_without_tools_run_together_and_stay_what_they_are_alone(engine: Engine) -> None:
    wishes: list[dict[str, Any]] = [
        {},
        {"tools": TOOLS, "constrain_tools": False},
        {"tools": TOOLS},
        {"grammar": JsonSchema(TEMPERATURE)},
    ]
    bias = towards(engine, CALL)
    requests = [
        GenerateRequest(ASKED, max_tokens=12, temperature=0.0, logit_bias=bias, **one) for one in wishes
    ]
    alone = [engine.submit(request).result(60) for request in requests]
    begin_calls = [bool(ids_of(engine, CALL) & {*found.ids}) for found in alone]
    assert begin_calls == [False, True, True, False]
    together = [handle.result(60) for handle in [engine.submit(request) for request in requests]]
    assert [found.ids for found in together] == [found.ids for found in alone]


def test_what_a_request_ends_at_may_come(engine: Engine) -> None:
    """The requester's own wish, and the model's ends, which name what it would wait for."""
    found = chat(engine, logit_bias=towards(engine, CALL), stop=(CALL,))
    assert (found.ids, found.finish_reason, found.stop) == ((), "stop", *ids_of(engine, CALL))
    for end in GEMMA4.ends:
        ended = chat(engine, logit_bias=towards(engine, end))
        assert (ended.ids, ended.finish_reason) == ((), "stop"), end


def test_probabilities_are_the_models_own(engine: Engine) -> None:
    """What may not come has a probability all the same."""
    (call,) = ids_of(engine, CALL)
    found = chat(engine, tools=TOOLS, constrain_tools=False, logprobs=20, max_tokens=1)
    tops = dict(found.logprobs[0].top)
    assert call in tops, "of a question that a tool answers"
    assert math.isfinite(tops[call])


@pytest.mark.parametrize("name", ["gemma3", "gemma4"])
def test_each_control_token_of_a_format_ends_an_answer_or_is_a_part_of_it_or_is_forbidden(name: str) -> None:
    known = format_named(name)
    parts = {*known.ends, *(known.thought or ()), *known.calls}
    assert parts.isdisjoint(known.unsaid)
    assert {*known.marks} <= parts | {*known.unsaid}
    assert {*known.forbidden(tools=False)} - {*known.forbidden(tools=True)} == {*known.calls}
    assert "<bos>" in known.forbidden(tools=True)


@pytest.mark.parametrize("named", [True, False], ids=["the format itself", "a checkpoint's own template"])
@pytest.mark.parametrize("name", ["gemma3", "gemma4"])
def test_what_begins_a_text_or_a_turn_or_is_an_image_is_forbidden_in_every_format(
    name: str, named: bool
) -> None:
    begins = {
        "gemma3": {"<bos>", "<start_of_turn>", "<start_of_image>", "<image_soft_token>", "<end_of_image>"},
        "gemma4": {"<bos>", "<|turn>", "<|image>", "<|image|>", "<image|>", "<|tool>", "<|think|>"},
    }[name]
    known = format_named(name)
    if not named:
        known = template_format(Path("t.jinja"), "", {}, known.marks)
    assert begins <= {*known.forbidden(tools=True)} <= {*known.forbidden(tools=False)}
    assert {*known.ends}.isdisjoint(known.forbidden(tools=False))
    assert not {"<end_of_turn>", "<turn|>", "<eos>"} & {*known.forbidden(tools=False)}
