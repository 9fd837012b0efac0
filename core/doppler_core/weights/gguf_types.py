"""The tensor types of GGUF files, by their number: how many bytes a block of values takes, and which are read."""

from collections.abc import Mapping
from dataclasses import dataclass

from doppler_core.weights.tensor import BLOCKS, BlockFormat, StorageType


@dataclass(frozen=True)
class GgmlType:
    """A tensor type. `stored`: the storage type it is read as, None for one that is known and not read."""

    name: str
    block: BlockFormat
    stored: StorageType | None


_READ: Mapping[int, StorageType] = {
    0: "f32", 1: "f16", 2: "q4_0", 6: "q5_0", 8: "q8_0", 12: "q4_k", 13: "q5_k", 14: "q6_k", 30: "bf16",
}  # fmt: skip
# Values and bytes of a block.
_KNOWN: Mapping[int, tuple[str, int, int]] = {
    3: ("Q4_1", 32, 20), 7: ("Q5_1", 32, 24), 9: ("Q8_1", 32, 40), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110),
    15: ("Q8_K", 256, 292), 16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50), 20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136), 24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8),
    28: ("F64", 1, 8), 29: ("IQ1_M", 256, 56), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36), 41: ("Q1_0", 128, 18),
}  # fmt: skip

TYPES: Mapping[int, GgmlType] = {
    **{code: GgmlType(stored.upper(), BLOCKS[stored], stored) for code, stored in _READ.items()},
    **{
        code: GgmlType(name, BlockFormat(values, size), None) for code, (name, values, size) in _KNOWN.items()
    },
}
#: The names of the types that are read, for messages.
READ_NAMES = ", ".join(TYPES[code].name for code in _READ)
