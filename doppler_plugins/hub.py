"""Checkpoints from the Hugging Face Hub, by its own client and into its own cache, shared with other tools.

Takes `hf:org/name[@revision]`, gives a local folder. Its errors become ours, with what to do next. With `offline`
(or HF_HUB_OFFLINE=1) no socket is opened. On a terminal the client shows its own progress bars.
"""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from doppler_core.errors import DiskSpaceError, DopplerError, ModelNotFoundError

PREFIX = "hf:"

_REFERENCE = re.compile(r"hf:(?P<repo>[\w.-]+/[\w.-]+)(@(?P<revision>[^@\s]+))?")
# What a checkpoint is read from: configuration, weights and tokenizer, also of the modules in sub-folders.
_FILES = ["*.json", "*.safetensors", "tokenizer.model", "*.jinja", "README.md"]


def parse_reference(ref: str) -> tuple[str, str | None]:
    """Split `hf:org/name[@revision]`; raise ModelNotFoundError for another form."""
    match = _REFERENCE.fullmatch(ref)
    if match is None:
        raise ModelNotFoundError(f"{ref!r}: expected hf:organisation/name or hf:organisation/name@revision")
    return match["repo"], match["revision"]


def download(ref: str, revision: str | None, offline: bool) -> Path:
    """The local snapshot of a repository; `revision` counts where the reference names none."""
    import huggingface_hub

    repo, named = parse_reference(ref)
    revision = named or revision
    with _translated(ref, repo, revision, offline):
        folder = huggingface_hub.snapshot_download(
            repo, revision=revision, allow_patterns=_FILES, local_files_only=offline
        )
    return Path(str(folder))


@contextmanager
def _translated(ref: str, repo: str, revision: str | None, offline: bool) -> Iterator[None]:
    from huggingface_hub import errors

    page = f"https://huggingface.co/{repo}"
    local = "or give a local folder of the checkpoint"
    try:
        yield
    except errors.GatedRepoError as error:
        raise ModelNotFoundError(
            f"{ref}: its publisher wants the licence accepted first: open {page}, accept it, log in with "
            f"`hf auth login` (or set HF_TOKEN), and try again; {local}"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise ModelNotFoundError(
            f"{ref}: there is no revision {revision!r}: branches and tags are at {page}/tree/main"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise ModelNotFoundError(
            f"{ref}: there is no such repository, or it is private: check the spelling at {page}, log in with "
            f"`hf auth login` (or set HF_TOKEN) if it is yours; {local}"
        ) from error
    except errors.HFValidationError as error:
        raise ModelNotFoundError(f"{ref}: not a repository's name: {error}") from error
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        why = "offline is set" if offline else "the Hub can't be reached, or HF_HUB_OFFLINE is set,"
        raise ModelNotFoundError(
            f"{ref}: {why} and the Hub's cache does not hold it (revision {revision or 'main'}): run once with the "
            f"network, {local}"
        ) from error
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise DiskSpaceError(f"{ref}: the disk of the Hub's cache is full (HF_HOME moves it)") from error
        raise _unreachable(ref, local, error) from error
    except DopplerError:
        raise
    except Exception as error:  # the client's HTTP library differs by version, and so do its errors
        raise _unreachable(ref, local, error) from error


def _unreachable(ref: str, local: str, error: Exception) -> ModelNotFoundError:
    return ModelNotFoundError(
        f"{ref}: it could not be fetched ({type(error).__name__}: {error}): check the network and HF_ENDPOINT, {local}"
    )
