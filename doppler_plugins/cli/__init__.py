"""The command `doppler-plugins`: results on stdout, talk on stderr, exit code 2 for what went wrong on purpose."""

from doppler_plugins.cli.program import main

__all__ = ["main"]
