"""The group of commands, to which plugins add theirs: only when the help is shown or a name is not built in.

So that a slow or broken plugin costs the built-in commands nothing.
"""

from collections.abc import Collection
from typing import Any

import click

from doppler_core.errors import DopplerError
from doppler_plugins.cli.output import emit_error
from doppler_plugins.cli.spelling import Group
from doppler_plugins.manager import PluginManager
from doppler_plugins.registry import plugins


class OutputClosedError(Exception):
    """Whoever read the output has closed it, as `head` does."""


class CommandGroup(Group):
    """Built-in commands, then those of plugins. A plugin can't replace a command."""

    _adopted: frozenset[str] | None = None  # names that plugins added; None = they were not asked yet

    @property
    def own_names(self) -> frozenset[str]:
        """The names of the built-in commands."""
        return frozenset(self.commands) - (self._adopted or frozenset())

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command line; a closed output gets an error of its own, which click would turn into exit code 1. Other
        errors are told as JSON where that was asked for, before they go on."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise OutputClosedError from error
        except (DopplerError, OSError, MemoryError) as error:
            emit_error(ctx, error)
            raise

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, for the help."""
        self._extend()
        return super().list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command by name; plugins are only asked for names that nobody else has."""
        found = super().get_command(ctx, cmd_name)
        if found is None:
            self._extend()
            found = super().get_command(ctx, cmd_name)
        return found

    def _extend(self) -> None:
        if self._adopted is not None:
            return
        found = commands_of_plugins(plugins().manager, self.own_names)
        self._adopted = frozenset(found)
        for name, command in found.items():
            self.add_command(command, name)


def commands_of_plugins(manager: PluginManager, taken: Collection[str]) -> dict[str, click.Command]:
    """The commands that plugins add, by name; one whose name is taken is left out, with a warning on the record."""
    found: dict[str, click.Command] = {}
    for implementation in manager.implementations("doppler_register_commands"):
        staged = click.Group()
        with manager.blaming(implementation):
            implementation(cli=staged)
            for name, command in staged.commands.items():
                record = manager.record(implementation.key)
                if name in taken or name in found:
                    warning = f"the command {name} exists and was not replaced"
                    manager.update(implementation.key, warnings=(*record.warnings, warning))
                else:
                    found[name] = command
                    manager.update(implementation.key, provides=(*record.provides, f"command {name}"))
    return found
