"""Attention within a step's rows, and over keys and values that a state keeps."""

from dataclasses import replace

from doppler_core.plan.kernel_tables.parts import FOURS, OUTPUT, ROWS, SLOTS, number, tiles
from doppler_core.plan.signature import Operand, Params, Signature


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
        most={"head_dim": 256},
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


def _cached_row(file: str, workgroup_size: int, head_dim: int) -> Signature:
    """A row of one head for each workgroup, which turns over chunks of as many positions as it has threads: `fours`
    to make their scores, at most 8 to find the highest, the chunk once more for the output. It may norm and turn
    the query before."""
    return Signature(
        file=file,
        entry="main",
        meaning="cached_attention",
        operands=(
            ROWS,
            SLOTS,
            Operand("q", "input", ("f32",), FOURS),
            Operand("state", "input", ("f16", "f32"), "vec2<u32>", half="STATE_IS_F16"),
            replace(OUTPUT, element=FOURS),
            Operand("weight", "weight", ("f32", "f16"), "u32", present="HAS_NORM", half="WEIGHT_IS_F16"),
            Operand("table", "constant", ("f32",), "vec2<f32>", present="HAS_ROTATION"),
        ),
        params={
            "heads": "u32",
            "kv_heads": "u32",
            "head_dim": "u32",
            "scale": "f32",
            "capacity": "u32",
            "window": "u32",
            "softcap": "f32",
            "rows_are_slots": "u32",
            "q_columns": "u32",
            "eps": "f32",
            "offset": "f32",
            "canvas": "u32",
        },
        defaults={"eps": 0.0, "offset": 0.0, "canvas": False},
        workgroup_size=workgroup_size,
        groups=lambda rows, sequences, params: rows * number(params, "heads"),
        iterations=lambda params, longest: (
            tiles(_positions(params, longest), workgroup_size)
            * (10 + number(params, "head_dim") // 4 + tiles(workgroup_size, _parts(params, workgroup_size)))
            + workgroup_size
            + 8
        ),
        overrides={
            "STATE_IS_F16": True,
            "HAS_SOFTCAP": False,
            "WEIGHT_IS_F16": True,
            "HAS_NORM": False,
            "HAS_ROTATION": False,
        },
        multiples={"head_dim": 4},
        most={"head_dim": head_dim},
        flags={"HAS_SOFTCAP": lambda params: bool(params["softcap"])},
    )


def _positions(params: Params, longest: int) -> int:
    """The most positions that a row sees."""
    window, capacity = number(params, "window"), number(params, "capacity")
    ahead = longest - 1 if params["canvas"] else 0
    return min(window + ahead, capacity) if window else capacity


def _parts(params: Params, workgroup_size: int) -> int:
    return workgroup_size // (number(params, "head_dim") // 4)


def _cached_tile(file: str, rows: int, lanes: int, keys: int) -> Signature:
    """Tiles of `rows` rows of one slot, `lanes` threads a row, see what the tile's first and last row see, `keys`
    positions at a time. `longest` is above the number of slots, which a workgroup goes through to find its own."""
    one_row = _cached_row(file, rows * lanes, 32 * lanes)
    return replace(
        one_row,
        operands=one_row.operands[:5],
        overrides={"STATE_IS_F16": True, "HAS_SOFTCAP": False},
        groups=lambda count, sequences, params: (tiles(count, rows) + sequences) * number(params, "heads"),
        iterations=lambda params, longest: (
            tiles(_positions(params, longest) + rows, keys)
            * (1 + 3 * keys + lanes // 4 + 2 * tiles(keys * 8, rows))
            + longest
        ),
    )


def _cached_broadcast() -> Signature:
    """Four heads of one row over blocks of 256 positions: for each a head's columns by 32 in each of 8 tiles, then by 64,
    and 8 turns to make weights of the four heads' scores."""
    row = _cached_row("attention_cached_broadcast.wgsl", 8, 512)
    state = replace(row.operands[3], element="vec2<u64>")
    return replace(
        row,
        operands=(*row.operands[:3], state, row.operands[4]),
        overrides={"STATE_IS_F16": True, "HAS_SOFTCAP": False},
        groups=lambda rows, sequences, params: rows * number(params, "kv_heads") * tiles(_sharing(params), 4),
        iterations=lambda params, longest: (
            tiles(_positions(params, longest), 256)
            * (1 + 8 + number(params, "head_dim") // 4 + 32 + 9 * tiles(number(params, "head_dim"), 64))
        ),
        features=("subgroup", "shader-int64"),
        subgroup_size=8,
        multiples={"head_dim": 64},
    )


def _sharing(params: Params) -> int:
    """Query heads of a key head."""
    return number(params, "heads") // number(params, "kv_heads")


SIGNATURES: tuple[Signature, ...] = (
    _attention("attention_small.wgsl", "f32"),
    _ATTENTION_BROADCAST,
    _cached_row("attention_decode_online_f16kv.wgsl", 256, 512),
    _cached_row("attention_streaming_f16kv.wgsl", 128, 512),
    _cached_tile("attention_small_f16kv.wgsl", 8, 8, 8),
    _cached_tile("attention_head256_f16kv.wgsl", 16, 8, 8),
    _cached_tile("attention_head512_f16kv.wgsl", 8, 16, 4),
    _cached_broadcast(),
)
