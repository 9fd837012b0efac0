"""What demo-chat learns from: is it what the package sends, and is no word of the held-out cases in it?"""

import random
import re
from typing import Any

import pytest

from doppler_core.text.chat import format_named
from doppler_core.text.chat.form import Control
from doppler_core.text.chat.messages import Message, Reasoning, Text, ToolCall, ToolResult
from doppler_core.text.chat.tools import read_tools
from tests.demo_scripts import demo_scripts

NAMES = ("cases", "results", "samples", "tools", "values", "wire")
cases, results, samples, tools, values, wire = demo_scripts("chat", *NAMES)


def rendered(messages: list[Message], offered: list[Any], thinking: bool) -> str:
    """What the package sends, control tokens by their texts."""
    schemas = read_tools([offer.tool.schema() for offer in offered])
    pieces = format_named("gemma4").render(messages, schemas, thinking)
    return "".join(piece.token if isinstance(piece, Control) else piece for piece in pieces)


@pytest.mark.parametrize("thinking", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_a_prompt_is_what_the_package_renders(seed: int, thinking: bool) -> None:
    draws = values.Values(random.Random(seed))
    offered = tools.offers(draws, 3)
    asked = [tools.ask(draws, offer, offered) for offer in offered[:2]]
    given = [results.draw_result(draws) for _ in asked]
    messages = [
        Message("system", (Text("Be brief."),)),
        Message("user", (Text(asked[0].text.strip()),)),
    ]
    prompt = wire.opening("Be brief.", [offer.tool for offer in offered], thinking)
    prompt += wire.user_turn(asked[0].text.strip()) + wire.MODEL_TURN
    assert rendered(messages, offered, thinking) == prompt

    calls = tuple(ToolCall(one.name, one.arguments, one.name) for one in asked)
    thought = (Reasoning("I call both."),) if thinking else ()
    messages.append(Message("assistant", (*thought, *calls)))
    messages += [
        Message("tool", (ToolResult(result, one.name, one.name),))
        for one, result in zip(asked, given, strict=True)
    ]
    said = [*samples.thought(thinking, "I call both.")]
    said += [segment for one in asked for segment in wire.call(one.name, one.arguments)]
    prompt += "".join(text for text, _ in said) + wire.RESULT
    prompt += wire.results([(one.name, result) for one, result in zip(asked, given, strict=True)])
    assert rendered(messages, offered, thinking) == prompt + (wire.THOUGHT if thinking else "")


@pytest.mark.parametrize("seed", range(10))
def test_a_call_that_got_no_result_is_what_the_package_renders(seed: int) -> None:
    draws = values.Values(random.Random(seed))
    offered = tools.offers(draws, 3)
    first, then = (tools.ask(draws, offer, offered) for offer in offered[:2])
    messages = [
        Message("user", (Text(first.text.strip()),)),
        Message("assistant", (ToolCall(first.name, first.arguments, "a"),)),
        Message("user", (Text(then.text.strip()),)),
    ]
    prompt = wire.opening("", [offer.tool for offer in offered]) + wire.user_turn(first.text.strip())
    prompt += wire.MODEL_TURN + "".join(text for text, _ in wire.call(first.name, first.arguments))
    prompt += wire.RESULT + wire.user_turn(then.text.strip()) + wire.MODEL_TURN
    assert rendered(messages, offered, False) == prompt


def test_a_drilled_call_without_a_result_is_followed_by_the_next_request() -> None:
    text = ""
    for seed in range(20):
        text += "".join(part for part, _ in samples.choice_sample(values.Values(random.Random(seed))))
    assert wire.RESULT + wire.OPEN + "user" in text
    assert wire.RESULT + "\n" not in text


def test_no_word_of_a_held_out_case_is_drawn_in_training() -> None:
    draws = values.Values(random.Random(1))
    trained = {draws.word() for _ in range(20_000)}
    unseen = values.Values(random.Random(1), held_out=True)
    assert trained.isdisjoint({unseen.word() for _ in range(5_000)})


def test_a_held_out_case_asks_for_one_of_its_tools_and_says_what_it_needs() -> None:
    for case in cases.tool_cases(100, seed=5):
        functions = [schema["function"] for schema in case.tools]
        assert 2 <= len(functions) <= 4
        chosen = next(function for function in functions if function["name"] == case.name)
        assert set(chosen["parameters"].get("required", ())) <= set(case.arguments)
        assert set(case.arguments) <= set(chosen["parameters"]["properties"])
        for value in case.arguments.values():
            assert values.said(value) in case.request
        for value in case.result.values():
            assert values.said(value) in case.sentence


def test_an_answer_stands_in_its_passage() -> None:
    for case in cases.passage_cases(100, seed=5):
        assert re.search(rf"(^|\W){re.escape(case.answer)}(\W|$)", case.system + case.user)
