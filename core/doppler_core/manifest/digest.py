"""Kernel digests: the formula, the digests known, and the check made every time a model opens."""

import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal

from doppler_core.errors import DigestError
from doppler_core.manifest.execution import Execution, KernelSpec
from doppler_core.manifest.kernel_text import declares, has_kernel, kernel_text
from doppler_core.manifest.model import Manifest
from doppler_core.settings import data_dir

Kind = Literal["current", "older", "javascript", "unknown"]
StepList = Literal["preLayer", "decode", "prefill", "postLayer"]


def digest(text: str, entry: str) -> str:
    """sha256 of the UTF-8 text with LF line ends, a newline and `@@entry:` and the entry point's name.

    The formula of the Doppler project's manifests; `text` has its parts included (kernel_text).
    """
    canonical = text.replace("\r\n", "\n") + f"\n@@entry:{entry}"
    return "sha256:" + hashlib.sha256(canonical.encode("utf-8")).hexdigest()


def kernel_digest(file: str, entry: str, folder: Path | None = None) -> str:
    """The digest of a kernel of ours. DigestError: no such file, or it declares no such entry point."""
    text = kernel_text(file, folder)
    if not declares(text, entry):
        raise DigestError(f"kernel {file}: expected an entry point {entry!r}, and the file declares none")
    return digest(text, entry)


def kernels_named(execution: Execution, lists: Collection[StepList]) -> frozenset[str]:
    """The kernel keys that the steps of these lists name."""
    return frozenset(
        step.kernel for where, step in execution.steps() if where.split("[")[0].split(".")[1] in lists
    )


def verify_digests(manifest: Manifest, used: Collection[str], folder: Path | None = None) -> tuple[str, ...]:
    """Check every kernel's digest; `used` are the kernel keys that this model type runs. Gives notes to show.

    A kernel that runs must be ours: its digest is that of the text in wgsl/, or an older one whose contract is
    unchanged (noted). One that doesn't run may also carry a JavaScript digest (noted): it is declared, and no
    text here claims to be it. DigestError names every other kernel, expected, found and the way out.
    """
    notes, wrong = [], []
    for key, spec in manifest.execution.kernels.items():
        kind = recognise(spec, folder)
        name = f"execution.kernels.{key} ({spec.kernel}#{spec.entry})"
        if kind == "older":
            notes.append(
                f"{name}: pinned to an older text with the same contract; `doppler-plugins pin` renews it"
            )
        elif kind == "javascript" and key not in used:
            notes.append(f"{name}: pinned to the JavaScript engine's kernel; not run by this model type")
        elif kind != "current":
            wrong.append(f"{name}: {_refusal(spec, kind, folder)}")
    if wrong:
        raise DigestError("\n  ".join(wrong))
    return tuple(notes)


def recognise(spec: KernelSpec, folder: Path | None = None) -> Kind:
    """What a kernel's digest is: that of our text, an older one of ours, the JavaScript engine's, or unknown."""
    if has_kernel(spec.kernel, folder):
        text = kernel_text(spec.kernel, folder)
        if declares(text, spec.entry) and digest(text, spec.entry) == spec.digest:
            return "current"
    known = _known(folder or data_dir("wgsl"))
    name = f"{spec.kernel}#{spec.entry}"
    if spec.digest in known["older"].get(name, ()):
        return "older"
    return "javascript" if spec.digest in known["javascript"].get(name, ()) else "unknown"


def _refusal(spec: KernelSpec, kind: Kind, folder: Path | None) -> str:
    if not has_kernel(spec.kernel, folder):
        return (
            f"digest {spec.digest} belongs to a kernel that this version does not have; "
            "use a newer version, or name another kernel in the manifest"
        )
    expected = kernel_digest(spec.kernel, spec.entry, folder)
    if kind == "javascript":
        return (
            f"digest {spec.digest} is that of the JavaScript engine's kernel; ours is {expected}; "
            "`doppler-plugins pin FILE` writes our digests into the manifest"
        )
    return (
        f"expected digest {expected}, found {spec.digest}; the manifest was made for another text of this kernel: "
        "if the manifest's numbers are meant for the text here, `doppler-plugins pin FILE` writes its digests"
    )


def _known(folder: Path) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    """digests.json: "older" and "javascript", each `file#entry` to digests."""
    path = folder / "digests.json"
    try:
        data: Any = json.loads(path.read_text("utf-8")) if path.exists() else {}
        return {
            kind: {name: tuple(digests) for name, digests in data.get(kind, {}).items()}
            for kind in ("older", "javascript")
        }
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise DigestError(f"{path}: expected two objects, `older` and `javascript` ({error})") from None
