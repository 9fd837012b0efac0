"""A table of named tensors whose look-up explains itself. It knows no file format."""

import difflib
from collections.abc import Mapping
from pathlib import Path

from doppler_core.errors import FileFormatError
from doppler_core.weights.tensor import Tensor


class TensorTable(dict[str, Tensor]):
    """Readable tensors by name; `table[name]` of any other name is a FileFormatError with the reason.

    unreadable: tensors the files hold in a type that can't be read, with the words for the error.
    path: the file (or index) the table was read from.
    """

    def __init__(self, tensors: Mapping[str, Tensor], unreadable: Mapping[str, str], path: Path) -> None:
        super().__init__(tensors)
        self.unreadable = dict(unreadable)
        self.path = path

    def __missing__(self, name: str) -> Tensor:
        if name in self.unreadable:
            raise FileFormatError(self.unreadable[name])
        near = difflib.get_close_matches(name, self, 1)
        hint = f"; the nearest name is {near[0]!r}" if near else ""
        raise FileFormatError(f"{self.path}: no tensor {name!r} among {len(self)}{hint}")
