"""What demo-diffusion learns from: is it what the package sends, is every answer right, is no held-out one taught?"""

import random
import re

import pytest

from doppler_core.text.chat import format_named
from doppler_core.text.chat.form import Control
from doppler_core.text.chat.messages import Message, Text
from tests.demo_scripts import demo_scripts

cases, draw, tasks = demo_scripts("diffusion", "cases", "draw", "tasks")
(wire,) = demo_scripts("chat", "wire")
COUNT = 4_000


@pytest.fixture(scope="module")
def taught() -> list[tasks.Task]:
    drawer = draw.Draw(random.Random(1))
    return [tasks.drawn(drawer, held_out=False) for _ in range(COUNT)]


def test_a_prompt_is_what_the_package_renders(taught: list[tasks.Task]) -> None:
    for task in taught[:100]:
        pieces = format_named("gemma4").render([Message("user", (Text(task.request),))], (), False)
        rendered = "".join(piece.token if isinstance(piece, Control) else piece for piece in pieces)
        assert rendered == wire.BEGIN + wire.user_turn(task.request) + wire.MODEL_TURN


def test_no_answer_of_a_held_out_task_is_taught(taught: list[tasks.Task]) -> None:
    held_out = cases.task_cases(1_000, 2026)
    assert {task.answer for task in taught}.isdisjoint(task.answer for task in held_out)
    assert {task.kind for task in held_out} == {*tasks.KINDS} - {"talk"}


def test_a_seed_gives_the_same_cases() -> None:
    assert cases.task_cases(50, 7) == cases.task_cases(50, 7) != cases.task_cases(50, 8)


def test_a_request_has_one_answer_alone(taught: list[tasks.Task]) -> None:
    answers: dict[str, str] = {}
    for task in taught:
        assert answers.setdefault(task.request, task.answer) == task.answer


def test_answers_are_right(taught: list[tasks.Task]) -> None:
    known = [(task, worked_out(task)) for task in taught]
    assert [task for task, answer in known if answer not in (None, task.answer)] == []
    assert len({task.kind for task, answer in known if answer}) == 8


def worked_out(task: tasks.Task) -> str | None:
    """The answer from the request's text alone; None for the kinds that take more than a line to work out."""
    listed = task.request.split(": ", 1)[-1].split()
    numbers = [int(number) for number in re.findall(r"\d+", task.request)]
    match task.kind:
        case "copy":
            return " ".join(listed)
        case "reverse":
            return " ".join(reversed(listed))
        case "sort":
            return " ".join(sorted(listed))
        case "list":
            return " and ".join((", ".join(listed[:-1]), listed[-1]))
        case "count":
            step = 1 if numbers[0] < numbers[1] else -1
            return " ".join(map(str, range(numbers[0], numbers[1] + step, step)))
        case "add":
            return f"{numbers[0]} + {numbers[1]} = {sum(numbers)}"
        case "larger":
            return f"{max(numbers)} is larger than {min(numbers)}."
        case "question":
            sentences = re.findall(r"[A-Z][^.?:\n]*\.", task.request)
            return next((one for one in sentences if one == task.answer), "not in the passage")
    return None


def test_an_easy_task_is_short() -> None:
    drawer = draw.Draw(random.Random(2), level=0)
    longest = max((tasks.task(drawer) for _ in range(1_000)), key=lambda task: len(task.request))
    assert len(longest.request.split()) <= 20
