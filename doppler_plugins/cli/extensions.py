"""The group of commands, to which plugins add theirs: only when the help is shown or a name is not built in.

So that a slow or broken plugin costs the built-in commands nothing.
"""

from typing import Any

import click

from doppler_plugins.registry import plugins


class OutputClosedError(Exception):
    """Whoever read the output has closed it, as `head` does."""


class CommandGroup(click.Group):
    """Built-in commands, then those of plugins. A plugin can't replace a command."""

    _extended = False

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command line; a closed output gets an error of its own, which click would turn into exit code 1."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise OutputClosedError from error

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
        if self._extended:
            return
        self._extended = True
        manager = plugins().manager
        for implementation in manager.implementations("doppler_register_commands"):
            staged = click.Group(self.name)
            with manager.blaming(implementation):
                implementation(cli=staged)
                self._adopt(staged, implementation.key)

    def _adopt(self, staged: click.Group, key: int) -> None:
        manager = plugins().manager
        for name, command in staged.commands.items():
            record = manager.record(key)
            if name in self.commands:
                manager.update(
                    key, warnings=(*record.warnings, f"the command {name} exists and was not replaced")
                )
            else:
                self.add_command(command, name)
                manager.update(key, provides=(*record.provides, f"command {name}"))
