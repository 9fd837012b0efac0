"""The command `doppler-plugins`: results on stdout, talk on stderr, exit code 2 for what went wrong on purpose."""

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command line (None = the process's own) and exit; Ctrl-C while it is still being imported is one, too."""
    try:
        from doppler_plugins.cli import program
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
    program.main(arguments)
