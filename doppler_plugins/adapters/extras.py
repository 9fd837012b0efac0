"""The error of an adapter whose framework is not installed."""


def missing_extra(extra: str, error: ImportError) -> ImportError:
    """An ImportError that gives the pip line of `extra`; raise it `from error`."""
    return ImportError(
        f"this adapter needs the extra {extra!r}, and {error.name or error} can't be imported: "
        f'pip install "doppler-plugins[{extra}]"',
        name=error.name,
    )
