"""Large files of the Hub, gone on with where an earlier run stopped: the client itself begins each run anew.

A file grows beside its place in the client's cache, under the name of its hash, and takes the place once it is whole
and has that hash. The client then finds it there.
"""

import hashlib
import os
from pathlib import Path

from doppler_core.errors import IntegrityError
from doppler_plugins.hub_files import HubFile

_SUFFIX = ".doppler-part"


def there_already(folder: Path, file: HubFile) -> int:
    """Bytes of a file that an earlier run has fetched into a repository's folder of the cache."""
    blob = folder / "blobs" / file.blob
    if file.blob and blob.exists():
        return file.size
    part = blob.with_name(blob.name + _SUFFIX)
    return part.stat().st_size if part.exists() else 0


def fetch_large(folder: Path, repo: str, revision: str, file: HubFile, token: str | None) -> None:
    """Put a large file into the blobs of a repository's folder, unless it is there.

    Raises what the client raises, and IntegrityError where the whole file is not the one that the Hub lists.
    """
    from huggingface_hub import hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import WeakFileLock, build_hf_headers  # type: ignore[attr-defined]

    blob = folder / "blobs" / file.blob
    part = blob.with_name(blob.name + _SUFFIX)
    blob.parent.mkdir(parents=True, exist_ok=True)
    with WeakFileLock(part.with_name(part.name + ".lock")):
        if blob.exists():
            return
        if there_already(folder, file) > file.size:
            part.unlink()
        with part.open("ab") as out:
            http_get(
                hf_hub_url(repo, file.path, revision=revision),
                out,
                resume_size=out.tell(),
                headers=build_hf_headers(token=token),
                expected_size=file.size,
                displayed_filename=file.path,
            )
        with part.open("rb") as whole:
            found = hashlib.file_digest(whole, "sha256").hexdigest()
        if found != file.blob:
            part.unlink()
            raise IntegrityError(
                f"{repo}: {file.path} arrived with the hash {found}, and the Hub lists {file.blob}: it was removed; try "
                "again, and look at the network's proxy if that goes on"
            )
        os.replace(part, blob)
