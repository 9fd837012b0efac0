"""The page about generating text says what runs: its Python on a tiny model, its command lines by their options."""

import ast
import re
import shlex
from dataclasses import fields
from pathlib import Path

import click
import pytest

from doppler_core.engine.request import Delta, GenerateRequest, GenerateResult, Timings, Usage
from doppler_plugins import opening
from doppler_plugins.cli.program import cli

PAGE = (Path(__file__).parents[1] / "docs" / "generation.md").read_text("utf-8")
COMMANDS = re.findall(r"^    doppler-plugins (.+?)(?:  +#.*)?$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_line_of_the_page_is_one(line: str) -> None:
    command: click.Command = cli
    words = shlex.split(line)
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words.pop(0))
        assert found is not None, line
        command = found
    command.make_context("doppler-plugins", words)


def test_the_python_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOPPLER_PLUGINS_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("DOPPLER_PLUGINS_DEVICE", "numpy")

    def open_tiny(model: str) -> object:
        return opening.open_engine(Path(__file__).parent / "goldens" / "gemma4")

    monkeypatch.setattr("doppler_plugins.open_engine", open_tiny)
    streamed, several = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    exec(streamed.replace("temperature=0)", 'temperature=0, chat_format="gemma4")'), {})  # noqa: S102 - our own page
    assert re.search(r"(length|stop) \d+ [\d.]+\n$", capsys.readouterr().out)
    exec(several, {})  # noqa: S102
    waited_for, awaited = capsys.readouterr().out.splitlines()
    assert waited_for == awaited
    assert len(ast.literal_eval(awaited)) == 2


@pytest.mark.parametrize("kind", [GenerateResult, Delta, Usage, Timings, GenerateRequest])
def test_every_field_is_on_the_page(kind: type) -> None:
    missing = [field.name for field in fields(kind) if f"`{field.name}`" not in PAGE]
    # Its first field is the prompt, and a mask is for programs that bring a grammar.
    assert [name for name in missing if name not in ("prompt", "mask")] == []
