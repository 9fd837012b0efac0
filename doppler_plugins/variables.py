"""The variables DOPPLER_PLUGINS_*: which there are, and which of a process's are none of them.

Without this a misspelt one is a setting that does nothing, and says nothing.
"""

import functools
import logging
import os
import re
from collections.abc import Mapping
from difflib import get_close_matches

from doppler_core import settings
from doppler_plugins import records

logger = logging.getLogger(__name__)

#: The last one is read by this project's own tests.
KNOWN = (*settings.variables(), *records.VARIABLES, "DOPPLER_PLUGINS_REAL_MODELS")

_OURS = re.compile(r"DOPPLER_PLUGINS?_(.*)")  # without the S it is nobody else's either
_BEGINNING = "DOPPLER_PLUGINS_"


def unknown_variables(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Variables that look like ours and are read by nobody, each with the one that was meant, "" = that can't be told."""
    environment = os.environ if environment is None else environment
    parts = [name.removeprefix(_BEGINNING) for name in KNOWN]
    found = {}
    for name in sorted(environment):
        match = _OURS.fullmatch(name)
        if match and name not in KNOWN:
            # Without what they all begin with, which would make any two of them alike.
            near = get_close_matches(match[1].upper(), parts, n=1)
            found[name] = _BEGINNING + near[0] if near else ""
    return found


def what_to_do(near: str) -> str:
    """What to do about a variable that nobody reads. near: the one that was meant, or ""."""
    return f"did you mean {near}?" if near else f"there are {', '.join(KNOWN[:-1])}"


@functools.cache
def warn_of_unknown() -> None:
    """Say in the log which variables of this process are read by nobody; once."""
    for name, near in unknown_variables().items():
        logger.warning("%s is read by nobody: %s", name, what_to_do(near))
