"""The framework examples run as a user runs them, and find the right passages."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def first_titles(output: str) -> list[str]:
    """For each question printed, the title of the first passage under it."""
    return re.findall(r"^Question: .*\n  -?\d\.\d+  (.*)$", output, re.MULTILINE)


@pytest.mark.parametrize("name", ["langchain_rag.py", "llama_index_rag.py"])
def test_an_example_finds_the_passage_of_each_question(name: str) -> None:
    output = run(name)
    assert first_titles(output) == ["Grind size for coffee", "Silent flight of owls"]


def test_the_prompt_for_the_chat_model_holds_the_passage_and_the_question() -> None:
    prompt = run("langchain_rag.py", "How many hearts does an octopus have?").split("asked:")[1]
    assert "Its blood is blue" in prompt
    assert prompt.rstrip().endswith("How many hearts does an octopus have?")
