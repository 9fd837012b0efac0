"""A folder that appears whole or not at all: written beside its final place, then renamed into it.

    with staged(out, ...) as folder:   # out/../.<name>.staging/content, locked against other processes
        ...                            # write files
                                       # on success: synced, renamed to out; on an error: removed

A killed process leaves `.<name>.staging` behind, without its lock; the next run clears it. It knows no format.
"""

import contextlib
import errno
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from doppler_core.errors import DiskSpaceError, DopplerError, SettingsError
from doppler_core.weights.files import sync_folder

_SUFFIX = ".staging"
_CONTENT, _OLD, _LOCK = "content", "replaced", "lock"
_POLL_SECONDS = 0.1
# The disk, the user's share of it, or the longest file that is allowed.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def writing(out: Path, what: str) -> Iterator[None]:
    """Turn what the system has against writing `what` into an error that says so."""
    try:
        yield
    except DopplerError:
        raise
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise DiskSpaceError(
                f"{out}: the disk ran full while writing {what} ({error.strerror}); nothing was kept"
            ) from error
        told, place = error.strerror or str(error), error.filename
        reason = f"{told}: {place}" if place and str(place) != str(out) else told
        raise SettingsError(
            f"{out}: {what} can't be written ({reason}); give a folder that you may write (--out; for the cache, cache_dir "
            "or DOPPLER_PLUGINS_CACHE_DIR)"
        ) from error


def is_staging(folder: Path) -> bool:
    """True for a folder that `staged` works in."""
    return folder.name.startswith(".") and folder.name.endswith(_SUFFIX)


@contextlib.contextmanager
def staged(out: Path, may_write: Callable[[], bool], waiting: Callable[[], None]) -> Iterator[Path | None]:
    """A folder to fill that becomes `out`; None when `may_write()`, asked under the lock, says there is nothing to do.

    Where another process (or thread) is at work on the same `out`, `waiting()` is called and the turn awaited.
    What `out` held before is replaced in the same moment. A link is followed: it is its owner's, and stays.
    """
    out = Path(os.path.realpath(out))
    out.parent.mkdir(parents=True, exist_ok=True)
    place = out.parent / f".{out.name}{_SUFFIX}"
    with _locked(place, out, waiting):
        if not may_write():
            yield None
            return
        content = place / _CONTENT
        content.mkdir()
        yield content
        _commit(place, content, out)


@contextlib.contextmanager
def _locked(place: Path, out: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of a staging folder; at the end remove the folder, lock included, while it is still held."""
    told = False
    while (handle := _try_lock(place)) is None:
        if not told:
            waiting()
            told = True
        time.sleep(_POLL_SECONDS)
    try:
        _recover(place, out)
        yield
    finally:
        _recover(place, out)
        shutil.rmtree(place, ignore_errors=True)
        os.close(handle)


def _try_lock(place: Path) -> int | None:
    """The open handle of the lock, which a dying process gives up, or None while somebody else holds it."""
    try:
        place.mkdir(exist_ok=True)
    except (
        FileExistsError
    ):  # unless its holder removed the folder just now, it is something else, and will stay so
        if os.path.lexists(place) and not place.is_dir():
            raise
        return None
    try:
        handle = os.open(place / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except FileNotFoundError:  # its holder removed the folder just now
        return None
    if _lock(handle):
        with contextlib.suppress(FileNotFoundError):
            # The lock is worth something only while the file is the one others would open.
            if os.path.samestat(os.fstat(handle), os.stat(place / _LOCK)):
                return handle
    os.close(handle)
    return None


def _lock(handle: int) -> bool:
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
    else:
        import fcntl

        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _recover(place: Path, out: Path) -> None:
    """Undo what a run that did not finish left: half a content, or a replaced folder whose successor never arrived."""
    old = place / _OLD
    if old.exists():
        if not out.exists():
            old.rename(out)
        else:
            shutil.rmtree(old)
    shutil.rmtree(place / _CONTENT, ignore_errors=True)


def _commit(place: Path, content: Path, out: Path) -> None:
    for path in content.iterdir():
        with path.open("rb+") as file:
            os.fsync(file.fileno())
    sync_folder(content)
    old = place / _OLD
    if out.exists():
        out.rename(old)
    content.rename(out)
    sync_folder(out.parent)
    shutil.rmtree(old, ignore_errors=True)
