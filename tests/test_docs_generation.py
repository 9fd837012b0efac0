"""The page about generating text says what runs: its Python on a tiny model, its command lines by their options."""

import re
import shlex
from pathlib import Path

import click
import pytest

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
    (block,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    monkeypatch.setenv("DOPPLER_PLUGINS_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("DOPPLER_PLUGINS_DEVICE", "numpy")
    opened = []

    def open_tiny(model: str) -> object:
        opened.append(model)
        return opening.open_engine(Path(__file__).parent / "goldens" / "gemma4")

    monkeypatch.setattr("doppler_plugins.open_engine", open_tiny)
    exec(block.replace("temperature=0)", 'temperature=0, chat_format="gemma4")'), {})  # noqa: S102 - our own page
    assert opened == ["hf:google/gemma-3-1b-it"]
    assert re.search(r"(length|stop) \d+ [\d.]+\n$", capsys.readouterr().out)
