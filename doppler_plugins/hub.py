"""Checkpoints from the Hugging Face Hub, by its own client and into its own cache, shared with other tools.

Takes `hf:org/name[/file.gguf][@revision]`, gives a local folder or GGUF file. Its errors become ours, with what to do
next. Room on the disk is checked before anything is fetched. With `offline` (or HF_HUB_OFFLINE=1) no socket is opened.
On a terminal the client shows its own progress bars.
"""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from doppler_core.errors import DiskSpaceError, DopplerError, ModelNotFoundError
from doppler_plugins.hub_files import CHECKPOINT, HubFile, check_room, choose, total
from doppler_plugins.hub_resume import fetch_large, there_already

PREFIX = "hf:"

_REFERENCE = re.compile(
    r"hf:(?P<repo>[\w.-]+/[\w.-]+)(/(?P<file>[^@\s]+\.gguf))?(@(?P<revision>[^@\s]+))?", re.IGNORECASE
)
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_API_SECONDS = 10.0
_LOCAL = "or give a local folder of the checkpoint"


class Reference(NamedTuple):
    """A repository, one of its files, a revision of it."""

    repo: str
    file: str | None
    revision: str | None


class _Listing(NamedTuple):
    """A commit of a repository and the files it has."""

    commit: str
    files: list[HubFile]


def parse_reference(ref: str) -> Reference:
    """Split `hf:org/name[/file.gguf][@revision]`; raise ModelNotFoundError for another form."""
    match = _REFERENCE.fullmatch(ref)
    if match is None:
        raise ModelNotFoundError(
            f"{ref!r}: expected hf:organisation/name or hf:organisation/name/file.gguf, perhaps with @revision"
        )
    return Reference(match["repo"], match["file"], match["revision"])


def reference(ref: str, revision: str | None, path: Path) -> str:
    """What opens again what `download` gave for a reference: its repository, the GGUF file if it is one, its revision."""
    repo, _, named = parse_reference(ref)
    inside = "" if path.is_dir() else "/" + "/".join(path.parts[path.parts.index("snapshots") + 2 :])
    return f"{PREFIX}{repo}{inside}" + (f"@{named or revision}" if named or revision else "")


def download(
    ref: str, revision: str | None, offline: bool, *, file: str | None = None, token: str | None = None
) -> Path:
    """The local snapshot of a checkpoint, or a local GGUF file; what the cache holds is not fetched again.

    revision: counts where the reference names none. file: a GGUF file's name or pattern, where the reference names
    none. token: in place of HF_TOKEN and of the client's own login.
    """
    import huggingface_hub
    from huggingface_hub import errors

    repo, named_file, named = parse_reference(ref)
    file, revision = named_file or file, named or revision
    with _translated(ref, repo, revision):
        listing, away = (None, "offline is set") if offline else _list(repo, revision, token)
        if listing is None:
            chosen = [] if file is None else [file]
        else:
            files = choose(ref, listing.files, file)
            _fetch(ref, repo, listing.commit, files, token)
            chosen = [one.path for one in files if one.path.lower().endswith(".gguf")]
        where: dict[str, Any] = {"revision": revision, "local_files_only": bool(away), "token": token}
        try:
            if not chosen:
                folder = huggingface_hub.snapshot_download(
                    repo, allow_patterns=CHECKPOINT, tqdm_class=_bars(), **where
                )
                return Path(str(folder))
            first, *_ = [Path(huggingface_hub.hf_hub_download(repo, path, **where)) for path in chosen]
            return first
        except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
            raise _not_here(ref, revision, away or _reason(error)) from error


def _bars() -> type:
    """The client's progress bars, on a terminal only: some of them it shows in files too."""
    from huggingface_hub.utils import tqdm  # type: ignore[attr-defined]

    class Bars(tqdm):
        def __init__(self, *positional: Any, **named: Any) -> None:
            named["disable"] = named.get("disable") or None  # None: as the stream is a terminal or not
            super().__init__(*positional, **named)  # type: ignore[no-untyped-call]

    return Bars


def _list(repo: str, revision: str | None, token: str | None) -> tuple[_Listing | None, str]:
    """What the Hub says a repository holds, or why it can't be asked: the client then looks into its cache alone, and
    does not try again and again. Neither where the Hub refuses the token: the client has its own way with that."""
    from huggingface_hub import HfApi, errors

    try:
        info = HfApi(token=token).model_info(
            repo, revision=revision, files_metadata=True, timeout=_API_SECONDS
        )
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError, errors.HFValidationError):
        raise
    except Exception as error:  # noqa: BLE001 - no network, whose errors differ by version, or a Hub that is down
        return None, "" if _status(error) in (401, 403) else _reason(error)
    files = [
        HubFile(
            one.rfilename,
            one.size or 0,
            _blob(one.lfs.sha256 if one.lfs else one.blob_id),
            one.lfs is not None,
        )
        for one in info.siblings or ()
    ]
    return _Listing(info.sha or "main", files), ""


def _status(error: Exception) -> int | None:
    """The status of the Hub's answer, if it gave one."""
    return getattr(getattr(error, "response", None), "status_code", None)


def _reason(error: BaseException) -> str:
    """Why the Hub can't be asked, in the words of the system."""
    from huggingface_hub.errors import OfflineModeIsEnabled

    if isinstance(error, OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set"
    while cause := error.__cause__ or error.__context__:
        error = cause
    words = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return f"the Hub can't be reached ({str(words).splitlines()[0]})"


def _not_here(ref: str, revision: str | None, why: str) -> ModelNotFoundError:
    return ModelNotFoundError(
        f"{ref}: {why}, and the Hub's cache does not hold it (revision {revision or 'main'}): run once with the network, "
        f"{_LOCAL}"
    )


def _blob(name: str | None) -> str:
    """The name of a file's content, which becomes a path: a hash, or nothing."""
    return name if name and _HASH.fullmatch(name) else ""


def _fetch(ref: str, repo: str, commit: str, files: list[HubFile], token: str | None) -> None:
    """Check that the disk has room for what the cache lacks, and bring the large files."""
    from huggingface_hub import constants

    cache = Path(constants.HF_HUB_CACHE)
    folder = cache / f"models--{repo.replace('/', '--')}"
    there = sum(min(one.size, there_already(folder, one)) for one in files)
    check_room(ref, total(files) - there, cache)
    for one in files:
        if one.is_large and one.blob:
            fetch_large(folder, repo, commit, one, token)


@contextmanager
def _translated(ref: str, repo: str, revision: str | None) -> Iterator[None]:
    from huggingface_hub import errors

    page = f"https://huggingface.co/{repo}"
    try:
        yield
    except DopplerError:  # some are OSErrors, too
        raise
    except errors.GatedRepoError as error:
        raise ModelNotFoundError(
            f"{ref}: its publisher wants the licence accepted first: open {page}, accept it, log in with "
            f"`hf auth login` (or set HF_TOKEN), and try again; {_LOCAL}"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise ModelNotFoundError(
            f"{ref}: there is no revision {revision!r}: branches and tags are at {page}/tree/main"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise ModelNotFoundError(
            f"{ref}: there is no such repository, or it is private: check the spelling at {page}, log in with "
            f"`hf auth login` (or set HF_TOKEN) if it is yours; {_LOCAL}"
        ) from error
    except errors.HFValidationError as error:
        raise ModelNotFoundError(f"{ref}: not a repository's name: {error}") from error
    except errors.HfHubHTTPError as error:
        status = _status(error)
        if status not in (401, 403):
            raise _unreachable(ref, error) from error
        raise ModelNotFoundError(
            f"{ref}: the Hub refuses the token ({status}): take another one (--token, HF_TOKEN, `hf auth login`), or "
            f"accept the licence at {page}; {_LOCAL}"
        ) from error
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise DiskSpaceError(f"{ref}: the disk of the Hub's cache is full (HF_HOME moves it)") from error
        raise _unreachable(ref, error) from error
    except Exception as error:  # the client's HTTP library differs by version, and so do its errors
        raise _unreachable(ref, error) from error


def _unreachable(ref: str, error: Exception) -> ModelNotFoundError:
    return ModelNotFoundError(
        f"{ref}: it could not be fetched ({type(error).__name__}: {error}): check the network and HF_ENDPOINT, {_LOCAL}"
    )
