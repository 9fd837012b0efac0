"""Files that came from outside: strict JSON, paths that stay in their folder, read-only memory maps.

Every fault is a FileFormatError that names the file. It knows no weight format.
"""

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np

from doppler_core.errors import DopplerError, FileFormatError
from doppler_core.strict_json import shortened, strict_json
from doppler_core.weights.tensor import Bytes

JSON_BYTES = 100_000_000
# A JSON value takes up to about 100 bytes as a Python object, so this bounds a parse to a few hundred MB.
_JSON_VALUES = 4_000_000
# No file of a model is 10 deep. What Python reads near its recursion limit, it could not print in a message.
_JSON_DEPTH = 100
# The longest name that file systems take.
_NAME_BYTES = 255
# What stands in place of a large file in a clone without Git LFS, and the most bytes that it has.
_POINTER, _POINTER_BYTES = b"version https://git-lfs.github.com/spec/", 1024


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Turn what the system has against reading (no permission, a failing disk) into a FileFormatError with the file."""
    try:
        yield
    except DopplerError:
        raise
    except OSError as error:
        raise FileFormatError(
            f"{error.filename or 'a file of the model'}: can't be read ({error.strerror or error}); check that it is "
            "there and may be read by you"
        ) from error


def regular_size(path: Path) -> int:
    """Bytes of a regular file. Anything else (missing, folder, pipe, a Git LFS pointer) is a FileFormatError."""
    try:
        status = path.stat()
    except OSError as error:
        raise FileFormatError(f"{path}: can't be read ({error.strerror})") from error
    except ValueError as error:
        raise FileFormatError(f"{path!r}: not a path ({error})") from error
    if not stat.S_ISREG(status.st_mode):
        raise FileFormatError(f"{path}: expected a regular file")
    if status.st_size < _POINTER_BYTES and _begins(path, _POINTER):
        raise FileFormatError(
            f"{path}: a Git LFS pointer in place of the file: say `git lfs pull` in its folder, or download the file"
        )
    return status.st_size


def _begins(path: Path, start: bytes) -> bool:
    with reading(), path.open("rb") as file:
        return file.read(len(start)) == start


def parse_json(text: bytes, path: Path) -> Any:
    """The value of strictly read JSON in UTF-8, bounded in values and depth."""
    values = text.count(b",") + text.count(b"[") + text.count(b"{")
    if values > _JSON_VALUES:
        raise FileFormatError(f"{path}: JSON with about {values} values, more than {_JSON_VALUES}")
    try:
        return strict_json(text.decode("utf-8"), _JSON_DEPTH)
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path}: not UTF-8 at byte {error.start}, so not JSON") from None
    except ValueError as error:
        raise FileFormatError(f"{path}: {error}") from None


def read_json(path: Path, limit: int = JSON_BYTES) -> Any:
    """The JSON of a whole file of at most `limit` bytes."""
    size = regular_size(path)
    if size > limit:
        raise FileFormatError(f"{path}: JSON of {size} bytes, more than {limit}")
    return parse_json(path.read_bytes(), path)


def read_json_object(path: Path, limit: int = JSON_BYTES) -> dict[str, Any]:
    """`read_json` of a file that holds one object."""
    value = read_json(path, limit)
    if not isinstance(value, dict):
        raise FileFormatError(f"{path}: expected a JSON object, got {type(value).__name__}")
    return value


def inside(folder: Path, name: object, source: Path) -> Path:
    """`folder/name` for a relative path, found in the file `source`, that stays in the folder.

    The check is on the name alone: links inside the folder are its owner's business (model caches use them).
    """
    named = isinstance(name, str) and bool(name) and not any(ord(letter) < 32 for letter in name)
    if not isinstance(name, str) or not named or len(name.encode("utf-8", "surrogatepass")) > _NAME_BYTES:
        raise FileFormatError(f"{source}: {shortened(repr(name))} is not a file name")
    pure = PurePosixPath(name)
    if "\\" in name or pure.is_absolute() or PureWindowsPath(name).drive or ".." in pure.parts:
        raise FileFormatError(f"{source}: the path {shortened(repr(name))} leaves its folder {folder}")
    return folder / name


def map_file(path: Path) -> Bytes:
    """A read-only memory map of a whole file."""
    if regular_size(path) == 0:
        return np.zeros(0, np.uint8)
    try:
        return np.memmap(path, dtype=np.uint8, mode="r").view(np.ndarray)
    except OSError as error:
        raise FileFormatError(f"{path}: can't be mapped ({error.strerror})") from error


def field(record: Mapping[str, Any], name: str, kind: type, path: Path, where: str) -> Any:
    """A required field of a JSON object, checked for its type (a bool is no int)."""
    value = record.get(name)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        got = "nothing" if name not in record else shortened(repr(value))
        raise FileFormatError(f"{path}: {where}: `{name}`: expected {kind.__name__}, got {got}")
    return value


def sync_folder(path: Path) -> None:
    """Make a folder's entries durable, where the system can."""
    if os.name == "posix":
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
