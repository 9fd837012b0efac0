"""Strict JSON: takes a file's bytes, gives one object, or a ManifestError that names the file. It knows no field."""

import stat
from pathlib import Path
from typing import Any

from doppler_core.errors import ManifestError
from doppler_core.strict_json import strict_json

# The longest seed has 16 KB and is 7 deep: these stop a memory bomb, not a manifest.
LARGEST_BYTES = 4 * 2**20
DEEPEST = 40


def read_text(path: Path) -> str:
    """The file's text, its line ends as they are. ManifestError: unreadable, too large, not UTF-8."""
    try:
        # A pipe would keep its reader waiting.
        if not stat.S_ISREG(path.stat().st_mode):
            raise ManifestError(f"{path}: can't be read (not a regular file); expected a JSON file")
        with path.open("rb") as file:
            data = file.read(LARGEST_BYTES + 1)
    except ManifestError:
        raise
    except OSError as error:
        raise ManifestError(
            f"{path}: can't be read ({error.strerror or error}); expected a JSON file"
        ) from None
    except ValueError as error:
        raise ManifestError(f"{str(path)!r}: not a path ({error}); expected that of a JSON file") from None
    if len(data) > LARGEST_BYTES:
        raise ManifestError(f"{path}: larger than {LARGEST_BYTES} bytes; expected a manifest, not weights")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ManifestError(
            f"{path}: not UTF-8 at byte {error.start}; save the manifest as UTF-8 without a byte order mark"
        ) from None


def parse_object(text: str, name: str) -> dict[str, Any]:
    """The JSON object in `text`, strictly read; `name` stands for the file in messages.

    ManifestError: not JSON, a key twice in one object, NaN or an infinity, half of a surrogate pair, nested too deep,
    not an object.
    """

    try:
        value = strict_json(text, DEEPEST)
    except ValueError as error:
        raise ManifestError(f"{name}: {error}") from None
    if not isinstance(value, dict):
        raise ManifestError(f"{name}: expected a JSON object at the top, found {kind_of(value)}")
    return value


def kind_of(value: object) -> str:
    """What JSON calls a value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, list | tuple):
        return "a list"
    return "an object"
