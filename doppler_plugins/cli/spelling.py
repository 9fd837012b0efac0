"""What somebody meant by an option or a command that there is not.

Takes the word and the command it was said to, gives a sentence, or nothing where no guess is worth a line. click alone
compares letters: it would take `--temp` for `--steps`.
"""

from collections.abc import Sequence
from difflib import get_close_matches

import click

#: What other programs call it.
_COMMANDS = {
    "run": "chat",
    "complete": "generate",
    "list": "models",
    "ls": "models",
    "rm": "models remove",
    "delete": "models remove",
    "download": "pull",
    "show": "plan",
    "quantize": "convert",
    "encode": "embed",
    "help": "--help",
    "version": "--version",
}
_OPTIONS = {
    "-n": "--max-tokens",
    "-c": "--context-length",
    "--ctx-size": "--context-length",
    "--n-gpu-layers": "--device",
    "--reasoning": "--think",
    "--thinking": "--think",
}


class Group(click.Group):
    """Commands, one of which may be misspelt."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's; an unknown name gets our guess."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            guess = _sentence(_elsewhere_command(self, name), _near(name, self.list_commands(ctx)))
            raise click.UsageError(f"No such command {name!r}.{guess}", ctx)
        return super().resolve_command(ctx, args)


def with_guess(error: click.NoSuchOption) -> click.UsageError:
    """The error of an unknown option with what was meant, where the options of its command tell."""
    if error.ctx is None:
        return error
    option = error.option_name.partition("=")[0]
    return click.UsageError(f"No such option {option!r}.{_meant(option, error.ctx)}", error.ctx)


def _meant(option: str, ctx: click.Context) -> str:
    known = options_of(ctx.command)
    if option.strip("-") in _arguments(ctx.command):
        return f" It is an argument: {ctx.command_path} {' '.join(ctx.command.collect_usage_pieces(ctx))}"
    root = ctx.find_root()
    if ctx is root and isinstance(ctx.command, click.Group):
        if any(option in options_of(command) for command in ctx.command.commands.values()):
            return " Commands have it: it stands behind their name."
    elif option in options_of(root.command):
        return f" It stands before the command: {root.info_name} {option} {ctx.info_name} ..."
    elsewhere = _OPTIONS.get(option.replace("_", "-")) or _elsewhere_option(option)
    return _sentence(elsewhere if elsewhere in known else "", _near(option, known))


def options_of(command: click.Command) -> list[str]:
    """All options of a command, as they are written."""
    given = [param for param in command.params if isinstance(param, click.Option)]
    return [name for param in given for name in (*param.opts, *param.secondary_opts)]


def _arguments(command: click.Command) -> list[str]:
    return [str(param.name) for param in command.params if isinstance(param, click.Argument)]


def _elsewhere_command(group: click.Group, name: str) -> str:
    """What another program's command is called in this group: `models remove`, in the group `models` `remove`."""
    line = _COMMANDS.get(name, "")
    lines = (line, line.rpartition(" ")[2])
    return next((one for one in lines if one.startswith("-") or one.split(" ")[0] in group.commands), "")


def _elsewhere_option(option: str) -> str:
    from doppler_plugins.adapters.model_words import ELSEWHERE

    return "--" + ELSEWHERE.get(option.strip("-").replace("-", "_"), "").replace("_", "-")


def _near(word: str, known: Sequence[str]) -> list[str]:
    """Words that begin so; else those that have it as a part; else those of nearly the same letters."""
    if len(word.strip("-")) == 1:
        return []
    begun = [name for name in known if name.startswith(word)]
    part = [name for name in known if word.strip("-") in name.strip("-").split("-")]
    return begun or part or get_close_matches(word, known, n=1)


def _sentence(elsewhere: str, near: Sequence[str]) -> str:
    if elsewhere:
        return f" Here it is {elsewhere!r}."
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
