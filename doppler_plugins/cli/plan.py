"""`plan`: prints what runs, op by op, and what of the manifest did not become an op."""

import click

from doppler_core.errors import InputError
from doppler_core.settings import EngineSettings
from doppler_plugins.cli.options import engine_options
from doppler_plugins.cli.output import emit, json_option, progress_line


@click.command(short_help="Print what runs for a model, op by op.")
@click.argument("model")
@click.option(
    "--phase",
    help="One phase instead of all: encode of a model that embeds; prefill (prompts, and several sequences at once) or "
    "decode (one token) of one that generates; encode (what is known) or denoise of one that denoises canvases.",
)
@click.option(
    "--cost", is_flag=True, help="Bytes and FLOPs of each op and phase, memory, and the least possible."
)
@click.option(
    "--rows", type=click.IntRange(min=1), default=512, show_default=True, help="Rows of the costed step."
)
@click.option("--sequences", type=click.IntRange(min=1), default=4, show_default=True, help="Its sequences.")
@json_option
@engine_options
def plan(
    settings: EngineSettings,
    model: str,
    phase: str | None,
    cost: bool,
    rows: int,
    sequences: int,
    as_json: bool,
) -> None:
    """Print the plan of MODEL: layer, role, kernel, digest, shapes, types, and where each op comes from.

    With a GPU adapter (--device wgpu) or --kernel-profile, the kernels are those of the kernel profile.
    """
    from doppler_core.plan.show import plan_json, plan_lines
    from doppler_plugins.opening import plan_of

    with progress_line() as progress:
        found = plan_of(model, settings, progress)
    if phase is not None and phase not in found.phases:
        raise InputError(f"--phase {phase}: the plan of {found.model} has {', '.join(found.phases)}")
    if as_json:
        emit(plan_json(found, phase, cost=cost, rows=rows, sequences=sequences), True, [])
    else:
        emit(None, False, plan_lines(found, phase, cost=cost, rows=rows, sequences=sequences))
