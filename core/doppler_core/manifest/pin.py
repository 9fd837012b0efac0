"""`pin`: writes the digests of our kernels into a manifest file, and leaves every other byte as it is."""

import copy
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from doppler_core.errors import ManifestError
from doppler_core.manifest.digest import kernel_digest
from doppler_core.manifest.execution import KernelSpec
from doppler_core.manifest.json_text import parse_object, read_text
from doppler_core.manifest.kernel_text import has_kernel
from doppler_core.manifest.load import load_manifest

_NO_DIGEST = "sha256:" + "0" * 64
_SPACE = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True)
class Pinned:
    """What pin() did: kernel keys whose digest it wrote, those that were right, those it has no text for."""

    path: Path
    written: tuple[str, ...]
    right: tuple[str, ...]
    without_text: tuple[str, ...]


def pin(path: str | os.PathLike[str], folder: Path | None = None) -> Pinned:
    """Write the digests of the kernels in `folder` (wgsl/) into the manifest at `path`, atomically.

    The file is written only if a digest changes. Any digest may stand there before, "" too. A kernel that this
    version has no text for keeps its digest. ManifestError: not a manifest; DigestError: no such entry point.
    """
    target = Path(path).resolve()
    text = read_text(target)
    data = parse_object(text, str(path))
    written, right, without_text = [], [], []
    for key, spec in _kernels(data, str(path)):
        if not has_kernel(spec.kernel, folder):
            without_text.append(key)
            continue
        start, end = _span(text, ("execution", "kernels", key, "digest"))
        value = json.dumps(kernel_digest(spec.kernel, spec.entry, folder))
        if text[start:end] == value:
            right.append(key)
        else:
            text = text[:start] + value + text[end:]
            written.append(key)
    if written:
        _replace(target, text)
    return Pinned(target, tuple(written), tuple(right), tuple(without_text))


def _kernels(data: dict[str, Any], name: str) -> list[tuple[str, KernelSpec]]:
    """The manifest's kernels, everything but their digests checked."""
    blank = copy.deepcopy(data)
    execution = blank.get("execution")
    kernels = execution.get("kernels") if isinstance(execution, dict) else None
    for spec in kernels.values() if isinstance(kernels, dict) else ():
        if isinstance(spec, dict) and "digest" in spec:
            spec["digest"] = _NO_DIGEST
    return list(load_manifest(blank, name).execution.kernels.items())


def _span(text: str, path: Sequence[str]) -> tuple[int, int]:
    """Where the value at `path` stands in a JSON text that is known to hold it."""
    read = json.JSONDecoder().raw_decode
    at = _after_space(text, 0)
    for wanted in path:
        name = None
        while name != wanted:
            # At "{" or ",": a name, a colon, and the value that is skipped unless it is wanted.
            name, at = read(text, _after_space(text, at + 1))
            at = _after_space(text, _after_space(text, at) + 1)
            if name != wanted:
                at = _after_space(text, read(text, at)[1])
    return at, read(text, at)[1]


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _replace(path: Path, text: str) -> None:
    """Write beside the file, then put in its place: a killed run leaves the old file whole."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("xb") as file:
            file.write(text.encode("utf-8"))
        beside.chmod(path.stat().st_mode & 0o777)
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise ManifestError(f"{path}: the digests can't be written ({error.strerror or error})") from None
