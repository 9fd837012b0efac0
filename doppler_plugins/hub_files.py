"""Which files of a repository a model is made of, and whether the disk has room for them. It knows no network."""

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from doppler_core.errors import DiskSpaceError, ModelNotFoundError

# What a checkpoint is read from: configuration, weights and tokenizer, also of the modules in sub-folders.
CHECKPOINT = ["*.json", "*.safetensors", "tokenizer.model", "*.jinja", "README.md"]

_PART = re.compile(r"-(\d{5})-of-\d{5}(?=\.gguf$)", re.IGNORECASE)


@dataclass(frozen=True)
class HubFile:
    """A file of a repository. blob: its name in the client's cache, which of a large file is its sha256; "" = unknown."""

    path: str
    size: int
    blob: str
    is_large: bool


def choose(ref: str, files: Sequence[HubFile], pattern: str | None) -> list[HubFile]:
    """The files to fetch: the GGUF file that `pattern` names, in all its parts; without one, the checkpoint, or the
    only GGUF file of a repository of GGUF files. ModelNotFoundError lists what there is."""
    models: dict[str, list[HubFile]] = {}
    for file in sorted(files, key=lambda file: file.path):
        if file.path.lower().endswith(".gguf"):
            models.setdefault(_PART.sub("", file.path), []).append(file)
    if pattern is None:
        checkpoint = [file for file in files if any(fnmatchcase(file.path, one) for one in CHECKPOINT)]
        if not models or any(file.path.endswith(".safetensors") for file in checkpoint):
            return checkpoint
    wanted = {
        name: parts
        for name, parts in models.items()
        if pattern is None or any(_matches(file.path, pattern) for file in parts)
    }
    if len(wanted) == 1:
        return next(iter(wanted.values()))
    listed = "".join(f"\n  {parts[0].path}  {_size(total(parts))}" for parts in (wanted or models).values())
    if wanted:
        raise ModelNotFoundError(
            f"{ref}: {len(wanted)} GGUF models{f' match {pattern!r}' if pattern else ''}, and one is needed: name it with "
            f"`pull --file`, or write hf:org/name/file.gguf:{listed}"
        )
    raise ModelNotFoundError(f"{ref}: no GGUF file matches {pattern!r}; there is:{listed or ' none'}")


def total(files: Sequence[HubFile]) -> int:
    """Bytes of all files."""
    return sum(file.size for file in files)


def check_room(ref: str, need: int, cache: Path) -> None:
    """DiskSpaceError where the disk of a folder, there already or not, has less than `need` bytes free."""
    there = next(folder for folder in (cache, *cache.parents) if folder.exists())
    free = shutil.disk_usage(there).free
    if need > free:
        raise DiskSpaceError(
            f"{ref}: {_size(need)} are to be downloaded, and the disk of {cache} has {_size(free)} free: free some, or "
            "set HF_HOME to a folder on a larger one"
        )


def _matches(path: str, pattern: str) -> bool:
    return fnmatchcase(path, pattern) or fnmatchcase(path.rpartition("/")[2], pattern)


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
