"""An engine for a command: opened under a progress line that is gone afterwards, and refused in the user's words."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from doppler_core.errors import InputError
from doppler_core.settings import EngineSettings
from doppler_plugins.cli.output import progress_line

if TYPE_CHECKING:
    from doppler_core.engine.engine import Engine

Work = Literal["generate", "embed"]


@contextmanager
def opened(model: str, settings: EngineSettings, work: Work, under: str = "") -> Iterator["Engine"]:
    """The open engine of `model`; InputError names the command for a model of the other kind.

    under: the group of both commands, with a space.
    """
    from doppler_plugins.opening import open_engine

    with progress_line() as progress:
        engine = open_engine(model, settings, progress)
    with engine:
        other = f"`doppler-plugins {under}{'embed' if work == 'generate' else 'generate'}` is for it"
        if work == "generate" and not engine.capabilities.generates:
            raise InputError(f"{model} does not generate text: it embeds; {other}")
        if work == "embed" and not engine.capabilities.embeds:
            raise InputError(f"{model} does not embed text: it generates; {other}")
        yield engine
