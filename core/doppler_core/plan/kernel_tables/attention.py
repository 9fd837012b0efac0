"""Attention within a step's rows, and over keys and values that a state keeps."""

from dataclasses import replace

from doppler_core.plan.kernel_tables.parts import FOURS, OUTPUT, ROWS, SLOTS, number, tiles
from doppler_core.plan.signature import Operand, Signature


def _attention(file: str, element: str) -> Signature:
    """16 rows see keys of at most two long sequences, and of short ones among themselves; a tile of 8 keys takes 41
    turns, and up to 32 more where it is loaded value by value."""
    q, k, v = (Operand(name, "input", ("f32",), element) for name in "qkv")
    return Signature(
        file=file,
        entry="main",
        meaning="attention",
        operands=(ROWS, SLOTS, q, k, v, replace(OUTPUT, element=element)),
        params={
            "heads": "u32",
            "kv_heads": "u32",
            "head_dim": "u32",
            "scale": "f32",
            "window": "u32",
            "causal": "u32",
            "softcap": "f32",
        },
        workgroup_size=128,
        groups=lambda rows, sequences, params: tiles(rows, 16) * number(params, "heads"),
        iterations=lambda params, longest: 73 * tiles(2 * longest + 16, 8) + 64,
        overrides={"HAS_SOFTCAP": False},
        flags={"HAS_SOFTCAP": lambda params: bool(params["softcap"])},
    )


_ATTENTION_BROADCAST = replace(
    _attention("attention_broadcast.wgsl", FOURS),
    workgroup_size=8,
    groups=lambda rows, sequences, params: tiles(rows, 32) * number(params, "heads"),
    # For each block of 96 keys: three tiles of scores, 32 rows of softmax, the output in parts of 32 values.
    iterations=lambda params, longest: (
        tiles(2 * longest + 32, 96) * (36 + 7 * tiles(number(params, "head_dim"), 32))
        + tiles(2 * longest + 32, 8)
        + 64
    ),
    features=("subgroup",),
    subgroup_size=8,
    multiples={"head_dim": 32},
)

SIGNATURES: tuple[Signature, ...] = (
    _attention("attention_small.wgsl", "f32"),
    _ATTENTION_BROADCAST,
)
