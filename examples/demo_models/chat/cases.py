"""Held-out cases: what the model is asked, as a chat API takes it, and what it has to answer.

Takes a count and a seed, gives cases of words, tools and passages that no training draws. Needs no torch; the tests
read it, and so does `check.py`.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from passages import readings
from results import draw_result, sentence
from tools import ask, offers
from values import Value, Values


@dataclass(frozen=True)
class ToolCase:
    """A request with two to four tools at hand, the call it needs, what that gives, the sentence that says it."""

    tools: tuple[Mapping[str, Any], ...]
    request: str
    name: str
    arguments: Mapping[str, Value]
    result: Mapping[str, Value]
    sentence: str


@dataclass(frozen=True)
class PassageCase:
    """A question with the passage that answers it."""

    system: str
    user: str
    answer: str
    asked_first: bool


def tool_cases(count: int, seed: int) -> list[ToolCase]:
    values = Values(random.Random(seed), held_out=True)
    return [_tool_case(values) for _ in range(count)]


def passage_cases(count: int, seed: int) -> list[PassageCase]:
    values = Values(random.Random(seed), held_out=True)
    asked = [readings(values)[0] for _ in range(count)]
    return [PassageCase(one.system, one.user, one.answer, one.asked_first) for one in asked]


def _tool_case(values: Values) -> ToolCase:
    offered = offers(values, values.rng.choice((2, 3, 4)))
    request = ask(values, values.rng.choice(offered), offered)
    result = draw_result(values)
    schemas = tuple(offer.tool.schema() for offer in offered)
    said = sentence([(request.name, result)])
    return ToolCase(schemas, request.text, request.name, request.arguments, result, said)
