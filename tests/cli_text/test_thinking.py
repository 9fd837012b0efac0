"""`--think`: thoughts are asked for and shown, beside the answer and never in it."""

import json
from typing import Any

import pytest

from doppler_core.engine.request import Delta, Timings, Usage
from doppler_plugins.cli.answer import summary
from tests.scripted_generator import ScriptedGenerator


@pytest.fixture(autouse=True)
def _thinks(script: ScriptedGenerator) -> None:
    script.thoughts = ["Hm, ", "a greeting."]


def test_thoughts_go_to_stderr_and_the_answer_to_stdout(run: Any, script: ScriptedGenerator) -> None:
    done = run("generate", "model", "Hi", "--chat", "--think")
    assert script.asked[-1].thinking
    assert done.out == "Hello there.\n"
    assert "Hm, " in done.err
    assert done.err.index("a greeting.") < done.err.index("prompt 1 tokens")


def test_without_the_option_nothing_is_thought(run: Any, script: ScriptedGenerator) -> None:
    done = run("generate", "model", "Hi", "--chat")
    assert not script.asked[-1].thinking
    assert "Hm" not in done.err + done.out


def test_thoughts_are_for_conversations(run: Any) -> None:
    done = run("generate", "model", "Hi", "--think")
    assert (done.code, done.out) == (2, "")
    assert "--system, --chat-format and --think are for --chat" in done.err


def test_thoughts_are_a_field_of_their_own_in_json(run: Any) -> None:
    found = [
        json.loads(line)
        for line in run("generate", "model", "Hi", "--chat", "--think", "--json").out.splitlines()
    ]
    assert [delta["reasoning"] for delta in found if "reasoning" in delta] == ["Hm, ", "a greeting."]
    assert "".join(delta["text"] for delta in found) == "Hello there."


def test_a_chat_shows_thoughts_and_does_not_send_them_back(
    run: Any, script: ScriptedGenerator, stdin: Any
) -> None:
    stdin(b"first\nsecond\n")
    done = run("chat", "model", "--think")
    assert done.out == "Hello there.\nHello there.\n"
    assert done.err.count("a greeting.") == 2
    assert [turn["content"] for turn in script.asked[1].prompt] == ["first", "Hello there.", "second"]  # type: ignore[index]
    stdin(b"first\n")
    told = json.loads(run("chat", "model", "--think", "--json").out)
    assert (told["text"], told["reasoning"]) == ("Hello there.", "Hm, a greeting.")


def test_the_last_line_tells_how_much_was_thought() -> None:
    last = Delta("", finish_reason="stop", usage=Usage(9, 0, 20, 12), timings=Timings())
    assert "answer 20 tokens (12 of thoughts)" in summary(last, 100)
