"""The WGSL of a kernel, shared parts included. It knows the folder of kernels, no manifest and no device."""

import difflib
import re
from pathlib import Path

from doppler_core.errors import DigestError
from doppler_core.manifest.execution import KERNEL_FORM
from doppler_core.settings import data_dir

_INCLUDE = re.compile(r"^//!include[ \t]+(.*?)[ \t]*$", re.MULTILINE)


def kernel_text(file: str, folder: Path | None = None) -> str:
    """The text of a kernel's file with LF line ends and each `//!include FILE` line replaced by that file.

    A part included twice is taken once, where it first stands. `folder` is wgsl/ unless given.
    DigestError: no such file, not UTF-8, a part outside the folder, parts that include each other in a circle.
    """
    return _expanded(file, folder or data_dir("wgsl"), (), set())


def has_kernel(file: str, folder: Path | None = None) -> bool:
    """Whether this version has a kernel file of this name."""
    return re.fullmatch(KERNEL_FORM, file) is not None and ((folder or data_dir("wgsl")) / file).is_file()


def declares(text: str, entry: str) -> bool:
    """Whether the text declares a function of this name."""
    return re.search(rf"\bfn\s+{re.escape(entry)}\s*\(", text) is not None


def _expanded(file: str, folder: Path, inside: tuple[str, ...], taken: set[str]) -> str:
    by = f" (included by {inside[-1]})" if inside else ""
    if re.fullmatch(KERNEL_FORM, file) is None:
        raise DigestError(
            f"kernel {file!r}{by}: expected the name of a .wgsl file in {folder}, without a path"
        )
    if file in inside:
        raise DigestError(f"kernel {inside[0]}: the parts include each other: {' -> '.join((*inside, file))}")
    taken.add(file)
    text = _read(folder / file, folder, by)

    def part(line: re.Match[str]) -> str:
        name = line[1]
        if name in taken and name not in (*inside, file):
            return ""
        return _expanded(name, folder, (*inside, file), taken).rstrip("\n")

    return _INCLUDE.sub(part, text)


def _read(path: Path, folder: Path, by: str) -> str:
    try:
        return path.read_bytes().decode("utf-8").replace("\r\n", "\n")
    except FileNotFoundError:
        near = difflib.get_close_matches(path.name, [known.name for known in folder.glob("*.wgsl")], 1)
        advice = f"; the nearest is {near[0]}" if near else ""
        raise DigestError(f"kernel {path.name}{by}: no such file in {folder}{advice}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DigestError(f"kernel {path}{by}: can't be read as UTF-8 text ({error})") from None
