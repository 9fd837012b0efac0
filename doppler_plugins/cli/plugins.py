"""`plugins`: what is installed, whether it counts, and why not."""

from dataclasses import asdict

import click

from doppler_plugins.cli.extensions import CommandGroup, commands_of_plugins
from doppler_plugins.cli.output import emit, json_option, table
from doppler_plugins.records import PluginRecord, Policy


@click.command("plugins", short_help="List plugins, and what is wrong with them.")
@click.option(
    "--check", is_flag=True, help="Import everything that is declared; exit with 1 on a problem or a warning."
)
@json_option
@click.pass_context
def plugins_command(ctx: click.Context, check: bool, as_json: bool) -> None:
    """List plugins with their status, the reason where one does not count, and warnings about what it adds."""
    from doppler_plugins.registry import build_registry

    # Listed, never raised: with DOPPLER_PLUGINS_STRICT this command must still say what is wrong.
    policy = Policy.from_environment()
    registry = build_registry(policy=Policy(policy.allow, policy.block))
    if check:
        registry.check()
    group = ctx.find_root().command
    commands_of_plugins(registry.manager, group.own_names if isinstance(group, CommandGroup) else ())
    records = registry.records
    emit([asdict(record) for record in records], as_json, _lines(records))
    if check and any(record.is_problem or record.warnings for record in records):
        ctx.exit(1)


def _hooks(record: PluginRecord) -> list[str]:
    """The hooks that add no name: they are called with what others name."""
    return [f"hook {name}" for name in record.hooks if not name.startswith("doppler_register_")]


def _lines(records: tuple[PluginRecord, ...]) -> list[str]:
    head = ("NAME", "STATUS", "FROM", "PROVIDES")
    rows = [
        (
            record.name,
            record.status,
            "built in" if record.builtin else f"{record.distribution} {record.version}",
            ", ".join((*record.provides, *_hooks(record))) or "-",
        )
        for record in records
    ]
    notes = [
        f"{record.name}: {note}" for record in records for note in (record.reason, *record.warnings) if note
    ]
    return [*table([head, *rows]), *([""] if notes else []), *notes]
