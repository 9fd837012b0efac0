"""A word that the command line does not know is answered with the one that was meant."""

from typing import Any

import click
import pytest

from doppler_plugins.adapters.model_words import ELSEWHERE
from doppler_plugins.cli import spelling
from doppler_plugins.cli.program import cli


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("generate model x --temp 0", "No such option '--temp'. Did you mean '--temperature'?"),
        ("generate model x --max 3", "Did you mean '--max-tokens'?"),
        ("generate model x --tokens 3", "Did you mean '--max-tokens'?"),
        ("generate model x --max_tokens 3", "Did you mean '--max-tokens'?"),
        ("generate model x --penalty 3", "'--presence-penalty' or '--frequency-penalty'?"),
        ("generate model x --temprature=0", "No such option '--temprature'. Did you mean '--temperature'?"),
        ("generate model x --num-ctx 3", "No such option '--num-ctx'. Here it is '--context-length'."),
        ("generate model x --n_predict 3", "Here it is '--max-tokens'."),
        ("generate model x -n 3", "Here it is '--max-tokens'."),
        ("generate model x --n_gpu_layers 3", "Here it is '--device'."),
        ("chat model --thinking", "Here it is '--think'."),
        (
            "generate --model model x",
            "It is an argument: doppler-plugins generate [OPTIONS] MODEL [PROMPT]",
        ),
        ("chat model --debug", "It stands before the command: doppler-plugins --debug chat ..."),
        ("--device numpy chat model", "Commands have it: it stands behind their name."),
        ("embed model --querry x", "Did you mean '--query'?"),
        ("bench embed model --num-predict 3", "No such option '--num-predict'."),
        ("generate model x --zzz", "No such option '--zzz'."),
        ("generate model x -z", "No such option '-z'."),
        ("run model", "No such command 'run'. Here it is 'chat'."),
        ("rm model", "Here it is 'models remove'."),
        ("help", "Here it is '--help'."),
        ("gen model", "No such command 'gen'. Did you mean 'generate'?"),
        ("generat model", "Did you mean 'generate'?"),
        ("models rm model", "Here it is 'remove'."),
        ("bench run model", "No such command 'run'."),
        ("serve", "No such command 'serve'."),
    ],
)
def test_an_unknown_word_gets_the_word_that_was_meant(run: Any, line: str, says: str) -> None:
    done = run(*line.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith(f"{says}\n")
    assert "Error: No such " in done.err


def test_what_is_offered_for_another_programs_word_is_there() -> None:
    lines = {*spelling._COMMANDS.values()} - {"--help", "--version"}
    for line in lines:
        command: click.Command = cli
        for word in line.split():
            assert isinstance(command, click.Group)
            command = command.commands[word]
    known = {name for command in cli.commands.values() for name in spelling.options_of(command)}
    assert set(spelling._OPTIONS.values()) <= known
    # `response_format` alone is a word of the frameworks and no option.
    assert {f"--{word.replace('_', '-')}" for word in ELSEWHERE.values()} - known <= {
        "--response-format",
        "--thinking",
    }
