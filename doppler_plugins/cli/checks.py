"""All checks of `doctor`, one after the other. None can stop the others; what stops one is a problem with a remedy."""

from collections.abc import Callable

from doppler_core.errors import DopplerError, LimitError, NoAdapterError, SettingsError
from doppler_core.settings import EngineSettings
from doppler_plugins.cli import installation_checks, machine_checks
from doppler_plugins.cli.check import Check

_REPORT = "report it, with the output of `doppler-plugins doctor --json`"
_BROKEN = "try --device numpy; if that fails too, reinstall doppler-plugins"
_CHECKS: tuple[tuple[str, str, Callable[[EngineSettings], list[Check]]], ...] = (
    ("python", _REPORT, installation_checks.python),
    ("libraries", _REPORT, installation_checks.libraries),
    ("variables", _REPORT, installation_checks.variables),
    ("gpu library", _REPORT, machine_checks.gpu_library),
    ("gpu adapters", "update the GPU driver, or use device='numpy'", machine_checks.adapters),
    ("numpy", "reinstall it: pip install --force-reinstall numpy", machine_checks.numpy),
    ("cache folder", _REPORT, machine_checks.cache),
    ("plugins", _REPORT, installation_checks.plugins),
    ("embedding", _BROKEN, installation_checks.embedding),
    ("generating", _BROKEN, installation_checks.generating),
    ("denoising", _BROKEN, installation_checks.denoising),
)


def run_checks(settings: EngineSettings) -> list[Check]:
    """All checks in a fixed order; one that raises is a problem with that message."""
    found: list[Check] = []
    for name, remedy, check in _CHECKS:
        try:
            found += check(settings)
        except Exception as error:  # noqa: BLE001 - a check must never hide the others
            kind = "" if isinstance(error, DopplerError) else f"{type(error).__name__}: "
            found.append(Check(name, "problem", f"{kind}{error}", _remedy(error, remedy)))
    return found


def _remedy(error: Exception, usual: str) -> str:
    """What to do about what stopped a check: the user's own words come before the machine."""
    if isinstance(error, SettingsError):
        return "give another value, or leave out the option, or the DOPPLER_PLUGINS_* variable that stands for it"
    if isinstance(error, NoAdapterError):
        return "name a GPU adapter that is listed above, or use --device numpy"
    if isinstance(error, LimitError):
        return "free memory, or leave out --memory-limit, or the variable that stands for it"
    return usual
