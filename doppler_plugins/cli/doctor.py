"""`doctor`: runs every check, says what is wrong and what to do about it."""

from dataclasses import asdict, replace

import click

from doppler_core.settings import EngineSettings
from doppler_plugins.cli.options import machine_options
from doppler_plugins.cli.output import emit, json_option


@click.command(short_help="Check this machine and this installation.")
@json_option
@machine_options
@click.pass_context
def doctor(ctx: click.Context, settings: EngineSettings, as_json: bool) -> None:
    """Check this machine and this installation; exit with 1 if anything needs a remedy."""
    from doppler_plugins.cli.checks import run_checks

    # A precision, which a variable may give, is for checkpoints; what is opened here is converted.
    checks = run_checks(replace(settings, precision=None))
    lines = []
    for check in checks:
        lines.append(f"{check.status:8}{check.name}: {check.detail}")
        if check.remedy:
            lines.append(f"{'':8}remedy: {check.remedy}")
    emit([asdict(check) for check in checks], as_json, lines)
    if any(check.status == "problem" for check in checks):
        ctx.exit(1)
