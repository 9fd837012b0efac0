"""The chat examples do with the bundled models what they say."""

import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[[str], str]

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs an example as its own program, but in this process: starting five of them would take longer than they do."""

    def run(name: str) -> str:
        monkeypatch.setattr(sys, "argv", [name])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_an_agent_calls_the_right_one_of_three_tools_for_each_question(run: Run) -> None:
    calls = re.findall(r"^  calls (.*)$", run("langchain_agent.py"), re.MULTILINE)
    assert calls == ["get_weather(city='Oslo')", "add(a=17, b=25)", "set_timer(minutes=12)"]


def test_a_graph_loops_and_streams_what_its_tool_gave(run: Run) -> None:
    called, answer = run("langchain_graph.py").splitlines()[1:]
    assert called == "  multiply gave 42"
    assert "42" in answer


def test_a_chat_model_answers_from_the_notes_that_an_embedding_model_finds(run: Run) -> None:
    answers = run("langchain_chat_rag.py").splitlines()[1::2]
    assert ["Oslo" in answers[0], "4711" in answers[1]] == [True, True]


def test_sentences_become_objects_of_a_class(run: Run) -> None:
    people = run("langchain_extraction.py").splitlines()
    assert people[:2] == ["Person(name='Linus', age=28)", "Person(name='Mary', age=41)"]


def test_many_tasks_get_their_own_answers(run: Run) -> None:
    *answers, _ = run("langchain_fan_out.py").splitlines()
    assert sorted(answers)[:2] == ["Anna: Rome", "Ben: Lima"]
    assert len(answers) == 6


def test_a_canvas_is_seen_step_by_step_and_then_said(run: Run) -> None:
    task, *steps, said = run("langchain_canvas.py").split("Count down")[0].splitlines()
    assert task == "Sort: pear lemon apple"
    assert [f"({number} of 48)" in step for number, step in enumerate(steps, 1)] == [True] * len(steps)
    assert said.startswith("  = apple lemon pear  (")
