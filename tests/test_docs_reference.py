"""Each command, option, setting and variable has one row in the pages, and no row is about one that there is not."""

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import click
import pytest

from doppler_core import settings
from doppler_core.settings import EngineSettings
from doppler_plugins import hookspecs
from doppler_plugins.cli.program import cli
from doppler_plugins.cli.spelling import options_of
from doppler_plugins.variables import KNOWN

DOCS = Path(__file__).parents[1] / "docs"
#: Sections of the page about the command line whose options are those of several commands.
SHARED = ("Every command", "Answers")


def rows(column: str) -> Iterator[tuple[str, str, list[str]]]:
    """Page, section and what stands in backticks in the cells of a column, row by row of the tables that have it."""
    for path in sorted(DOCS.glob("*.md")):
        section, header = "", []
        for line in path.read_text("utf-8").splitlines():
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            if line.startswith("#"):
                section = line.lstrip("# ")
            if not cells:
                header = []
            elif not header:
                header = cells
            elif column in header and not set(cells) <= {"---"}:
                yield path.name, section, re.findall(r"`([^`]+)`", cells[header.index(column)])


def commands(group: click.Group = cli, *before: str) -> Iterator[tuple[str, click.Command]]:
    """Every built-in command that does something, with its whole name."""
    for name, command in group.commands.items():
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield " ".join((*before, name)), command
        if isinstance(command, click.Group):
            yield from commands(command, *before, name)


def told(section: str) -> list[str]:
    """The options of a section, as often as they are told."""
    return [
        name for _, at, names in rows("option") if at == section for name in names if name.startswith("-")
    ]


def test_every_command_has_one_row() -> None:
    names = [name for _, _, found in rows("command") for name in found]
    assert sorted(names) == sorted(name for name, _ in commands())


@pytest.mark.parametrize(("name", "command"), list(commands()))
def test_every_option_of_a_command_has_one_row(name: str, command: click.Command) -> None:
    shared = [option for section in (*SHARED, "Settings") for option in told(section)]
    own = told(name)
    counts = {option: (own + shared).count(option) for option in options_of(command)}
    assert counts == dict.fromkeys(counts, 1)
    assert set(own) <= set(options_of(command)), "a row of an option that this command does not have"


def test_every_shared_row_is_about_an_option_that_there_is() -> None:
    known = {option for _, command in commands() for option in options_of(command)}
    known |= {*options_of(cli), "--help", "-h"}
    assert set(options_of(cli)) <= set(told("Every command"))
    for section in (*SHARED, "Settings"):
        assert set(told(section)) <= known


def test_every_setting_has_one_row_with_its_option_and_its_variable() -> None:
    found = {names[0]: section for _, section, names in rows("setting")}
    assert sorted(found) == sorted(field.name for field in fields(EngineSettings))
    for column, spelt in (
        ("option", lambda name: f"--{name.replace('_', '-')}"),
        ("variable", settings.variable),
    ):
        cells = [names for page, _, names in rows(column) if page == "settings.md"]
        for name, cell in zip(found, cells, strict=True):
            there = column == "option" or spelt(name) in settings.variables()
            assert cell == ([spelt(name)] if there else [])


def test_every_variable_has_one_row() -> None:
    names = [name for _, _, found in rows("variable") for name in found]
    # The last is for who develops this project, and in CONTRIBUTING.
    assert sorted(names) == sorted(KNOWN[:-1])


def test_every_hook_has_one_row_with_its_arguments() -> None:
    specs = {
        name: function.__code__.co_varnames[: function.__code__.co_argcount]
        for name, function in vars(hookspecs).items()
        if name.startswith("doppler_")
    }
    found = [names[0] for _, _, names in rows("hook")]
    assert found == [f"{name}({', '.join(arguments)})" for name, arguments in specs.items()]


def test_every_option_says_in_the_help_what_it_does() -> None:
    silent = [
        f"{name} {param.opts[0]}"
        for name, command in commands()
        for param in command.params
        if isinstance(param, click.Option) and not (param.help or "").endswith(".")
    ]
    assert silent == []
