"""Hashes of an artifact's files: checked in streams, and remembered while the files stay as they were.

The memory is a stamp: sizes and modification times of the files at their last check. It saves time and is no
protection against somebody who can write the folder. It knows no tensor.
"""

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from doppler_core.errors import FileFormatError, IntegrityError, SettingsError
from doppler_core.settings import EngineSettings, Progress, cache_dir
from doppler_core.weights.artifact_format import ARTIFACT_FILE, ArtifactInfo
from doppler_core.weights.files import read_json, regular_size

STAMP_FILE = ".verified.json"
#: Below this many bytes a check takes less than a tenth of a second, so it is made every time, without a stamp.
SMALL_ARTIFACT = 64 << 20
_CHUNK = 4 << 20


def check_sizes(folder: Path, info: ArtifactInfo) -> None:
    """Every listed file is there with its size; FileFormatError if not."""
    for file in info.hashed:
        size = regular_size(folder / file.file)
        if size != file.bytes:
            raise FileFormatError(
                f"{folder / file.file}: {size} bytes, but {ARTIFACT_FILE} says {file.bytes}; "
                + ("it is truncated: " if size < file.bytes else "")
                + "convert or download it again"
            )


def check_hashes(folder: Path, info: ArtifactInfo, progress: Progress | None = None) -> None:
    """Read every listed file whole; IntegrityError names the first whose content is not what was hashed."""
    done, total = 0, sum(file.bytes for file in info.hashed)
    for file in info.hashed:
        digest = hashlib.sha256()
        with (folder / file.file).open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
                done += len(chunk)
                if progress:
                    progress("verifying", done, total)
        if digest.hexdigest() != file.sha256:
            raise IntegrityError(
                f"{folder / file.file}: its content has changed since it was converted (sha256 expected "
                f"{file.sha256}, found {digest.hexdigest()}); convert or download it again"
            )


def check_hashes_if_changed(folder: Path, info: ArtifactInfo, progress: Progress | None = None) -> None:
    """`check_hashes`, unless a stamp says that these very files passed it before."""
    if sum(file.bytes for file in info.hashed) < SMALL_ARTIFACT:
        check_hashes(folder, info, progress)
        return
    # Taken before the check: a file that changes while it is read does not match its stamp later.
    state = _state(folder, info)
    places = _stamp_places(folder)
    if any(_stamp(place) == state for place in places):
        return
    check_hashes(folder, info, progress)
    remember(places, state)


def remember(places: tuple[Path, ...], state: object) -> None:
    """Write a stamp to the first place that can be written; without one, the next open checks again."""
    for place in places:
        with contextlib.suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(json.dumps(state))
            return


def _state(folder: Path, info: ArtifactInfo) -> dict[str, Any]:
    table = hashlib.sha256((folder / ARTIFACT_FILE).read_bytes()).hexdigest()
    stats = {file.file: (folder / file.file).stat() for file in info.hashed}
    files = {name: [stat.st_size, stat.st_mtime_ns] for name, stat in stats.items()}
    return {"table": table, "files": files}


def _stamp(place: Path) -> Any:
    try:
        return read_json(place)
    except FileFormatError:
        return None


def _stamp_places(folder: Path) -> tuple[Path, ...]:
    """In the folder, or, for one that can't be written, in the user's cache under the folder's path."""
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()
    try:
        return folder / STAMP_FILE, cache_dir(EngineSettings()) / ".verified" / f"{name}.json"
    except SettingsError:  # nobody's home: one place is enough
        return (folder / STAMP_FILE,)
