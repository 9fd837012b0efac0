"""Puts the commands together, and turns errors into one message and an exit code.

Exit codes: 0 done, 1 a check found a problem, 2 an error with a message, 130 interrupted, 141 output closed.
"""

import io
import logging
import os
import sys
from collections.abc import Sequence

import click

from doppler_core.errors import DopplerError
from doppler_plugins.cli.bench import bench
from doppler_plugins.cli.chat import chat
from doppler_plugins.cli.convert import convert
from doppler_plugins.cli.demo import demo
from doppler_plugins.cli.doctor import doctor
from doppler_plugins.cli.embed import embed
from doppler_plugins.cli.extensions import CommandGroup, OutputClosedError
from doppler_plugins.cli.generate import generate
from doppler_plugins.cli.models import models
from doppler_plugins.cli.pin import pin
from doppler_plugins.cli.plan import plan
from doppler_plugins.cli.plugins import plugins_command
from doppler_plugins.cli.pull import pull
from doppler_plugins.cli.spelling import with_guess
from doppler_plugins.cli.verify import verify
from doppler_plugins.discovery import own_version

PROGRAM = "doppler-plugins"
LEVELS = ("debug", "info", "warning", "error")

logger = logging.getLogger("doppler_plugins")


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--log-level", type=click.Choice(LEVELS), default="warning", help="How much to say on stderr.")
@click.option("--debug", is_flag=True, help="Log everything, and show the traceback of an error.")
@click.version_option(own_version(), prog_name=PROGRAM)
def cli(log_level: str, debug: bool) -> None:
    """Gemma models on any GPU through WebGPU: fetch, convert, inspect, embed, generate, measure."""
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr, force=True)
    level = logging.DEBUG if debug else getattr(logging, log_level.upper())
    for name in ("doppler_core", "doppler_plugins"):
        logging.getLogger(name).setLevel(level)


for command in (
    embed,
    generate,
    chat,
    pull,
    convert,
    plan,
    pin,
    verify,
    models,
    plugins_command,
    doctor,
    bench,
    demo,
):
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command line (None = the process's own) and exit."""
    _open_closed_streams()
    _write_whatever_comes()
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and give its exit code."""
    try:
        code = cli.main(
            args=None if arguments is None else list(arguments), prog_name=PROGRAM, standalone_mode=False
        )
        sys.stdout.flush()
    except click.Abort:
        click.echo("interrupted", err=True)
        return 130
    except click.ClickException as error:
        error = with_guess(error) if isinstance(error, click.NoSuchOption) else error
        error.show()
        return error.exit_code
    except (OutputClosedError, BrokenPipeError):
        return _stop_writing()
    except (DopplerError, OSError, MemoryError) as error:
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("%s", type(error).__name__, exc_info=True)
        click.echo(f"{PROGRAM}: {_message(error)}", err=True)
        return 2
    return code if isinstance(code, int) else 0


def _message(error: Exception) -> str:
    """What to say; of an error of the system without its number."""
    if isinstance(error, MemoryError):
        why = f" ({error})" if str(error) else ""
        return f"the memory is full{why}: close other programs, or give a smaller --context-length or fewer --slots"
    if isinstance(error, DopplerError) or not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


def _open_closed_streams() -> None:
    """A stream that the caller closed is None here, and the next file to be opened would get its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            mode = os.O_WRONLY if number else os.O_RDONLY
            if (handle := os.open(os.devnull, mode)) != number:
                os.dup2(handle, number)
                os.close(handle)
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8"))  # noqa: SIM115


def _write_whatever_comes() -> None:
    """A name that a stream's encoding has no letters for is told with escapes, and ends no command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _stop_writing() -> int:
    """Nobody reads the output any more: leave nothing to flush at exit, and give the code that shells know for it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141
