"""Strict JSON: takes a file's bytes, gives one object, or a ManifestError that names the file. It knows no field."""

import json
import math
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from doppler_core.errors import ManifestError

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
    """The JSON object in `text`; `name` stands for the file in messages.

    ManifestError: not JSON, a key twice in one object, NaN or an infinity, half of a surrogate pair, nested too deep,
    not an object.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise ManifestError(f"{name}: the key {json.dumps(twice)} stands twice in one object; remove one")
        return found

    def refuse(literal: str) -> NoReturn:
        raise ManifestError(f"{name}: {literal} is not a JSON number; expected a finite number")

    def finite(literal: str) -> float:
        value = float(literal)
        return value if math.isfinite(value) else refuse(literal)

    try:
        value = json.loads(text, object_pairs_hook=unique, parse_constant=refuse, parse_float=finite)
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as error:
        raise ManifestError(
            f"{name}: not JSON at line {error.lineno}, column {error.colno}: {error.msg}"
        ) from None
    except RecursionError:
        raise ManifestError(f"{name}: nested too deep; expected at most {DEEPEST} levels") from None
    except ManifestError:
        raise
    except UnicodeEncodeError:
        raise ManifestError(f"{name}: a string holds half of a surrogate pair; remove it") from None
    except ValueError:
        # Python refuses to read a whole number of thousands of digits.
        raise ManifestError(f"{name}: a number has too many digits") from None
    if not isinstance(value, dict):
        raise ManifestError(f"{name}: expected a JSON object at the top, found {kind_of(value)}")
    if _depth(value) > DEEPEST:
        raise ManifestError(f"{name}: nested too deep; expected at most {DEEPEST} levels")
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


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _depth(value: Any) -> int:
    level, depth = [value], 0
    while level:
        depth += 1
        level = [child for parent in level for child in _children(parent)]
    return depth
