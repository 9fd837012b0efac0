"""Models in several GGUF files: any part's path in, one file with the first part's metadata and all tensors out.

The parts are NAME-00001-of-00003.gguf and so on, and each says in `split.no` and `split.count` which it is.
"""

import re
from pathlib import Path

from doppler_core.errors import FileFormatError
from doppler_core.weights.gguf import GgufFile, open_gguf
from doppler_core.weights.table import TensorTable

_NAME = re.compile(r"(.*)-(\d{5})-of-(\d{5})(\.gguf)", re.IGNORECASE)
_MAX_PARTS = 1000


def open_parts(path: Path) -> GgufFile:
    """The model that a file is, or is a part of. Raises FileFormatError, also for a part that is missing."""
    file = open_gguf(path)
    count = file.metadata.get("split.count", int) or 1
    if count == 1:
        return file
    named = _NAME.fullmatch(path.name)
    if named is None or int(named[3]) != count or count > _MAX_PARTS:
        raise FileFormatError(
            f"{path}: it is one of {count} parts, so its name must end in -00001-of-{count:05}.gguf; give the parts the "
            "names they were published with"
        )
    parts = []
    for number in range(count):
        place = path.with_name(f"{named[1]}-{number + 1:05}-of-{named[3]}{named[4]}")
        if not place.is_file():
            raise FileFormatError(f"{place}: this part of {count} is missing; download it too")
        part = open_gguf(place)
        found = part.metadata.get("split.no", int), part.metadata.get("split.count", int)
        if found != (number, count):
            raise FileFormatError(
                f"{place}: expected split.no {number} and split.count {count}, found {found[0]} and {found[1]}"
            )
        parts.append(part)
    return _joined(parts)


def _joined(parts: list[GgufFile]) -> GgufFile:
    first = parts[0]
    tensors = TensorTable({}, {}, first.path)
    for part in parts:
        both = (tensors.keys() | tensors.unreadable.keys()) & (
            part.tensors.keys() | part.tensors.unreadable.keys()
        )
        if both:
            raise FileFormatError(f"{part.path}: tensor {min(both)[:200]!r} is in an earlier part too")
        tensors.update(part.tensors)
        tensors.unreadable.update(part.tensors.unreadable)
    described = first.metadata.get("split.tensors.count", int)
    if described is not None and described != len(tensors) + len(tensors.unreadable):
        raise FileFormatError(
            f"{first.path}: split.tensors.count is {described}, and the parts have {len(tensors)} tensors"
        )
    return GgufFile(first.path, first.metadata, tensors, first.head)
