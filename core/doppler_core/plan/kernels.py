"""The table of kernels: one signature for each entry point in wgsl/. A test checks each row against its WGSL.

Bounds of loops are rounded up; they are compared with the loop cap that is probed on the device.
"""

import difflib
from collections.abc import Mapping
from dataclasses import replace

from doppler_core.errors import PlanError
from doppler_core.plan.op import Kernel
from doppler_core.plan.signature import Operand, Params, Signature
from doppler_core.weights.tensor import StorageType

_ROWS = Operand("rows", "table", ("u32",), "vec4<u32>")
_SLOTS = Operand("slots", "table", ("u32",), "vec4<u32>")
_INPUT = Operand("input", "input", ("f32",))
_OUTPUT = Operand("output", "output", ("f32",))


def _number(params: Params, name: str) -> int:
    return int(params[name])


def _tiles(size: int, tile: int) -> int:
    return -(-size // tile)


def _elementwise(file: str, meaning: str, *inputs: Operand, **overrides: bool) -> Signature:
    """Four elements a thread, 256 apart."""
    return Signature(
        file=file,
        entry="main",
        meaning=meaning,
        operands=(*inputs, _OUTPUT),
        params={"columns": "u32"},
        workgroup_size=256,
        groups=lambda rows, sequences, params: _tiles(rows * _number(params, "columns"), 1024),
        iterations=lambda params, longest: 4,
        overrides=overrides,
    )


_GATHER = Signature(
    file="gather.wgsl",
    entry="main",
    meaning="gather",
    operands=(_ROWS, Operand("table", "weight", ("f16", "f32"), "u32", half="WEIGHT_IS_F16"), _OUTPUT),
    params={"scale": "f32", "columns": "u32", "first_row": "u32", "row_count": "u32"},
    workgroup_size=256,
    groups=lambda rows, sequences, params: _tiles(rows * _number(params, "columns"), 1024),
    iterations=lambda params, longest: 4,
    overrides={"WEIGHT_IS_F16": True},
    sections=True,
)

_RMSNORM = Signature(
    file="rmsnorm.wgsl",
    entry="main",
    meaning="rmsnorm",
    operands=(
        _INPUT,
        Operand("residual", "input", ("f32",), present="HAS_RESIDUAL"),
        Operand("weight", "weight", ("f32", "f16"), "u32", present="HAS_WEIGHT", half="WEIGHT_IS_F16"),
        _OUTPUT,
    ),
    params={"eps": "f32", "offset": "f32", "columns": "u32", "segments": "u32"},
    workgroup_size=64,
    groups=lambda rows, sequences, params: rows * _number(params, "segments"),
    iterations=lambda params, longest: 2 * _tiles(_number(params, "columns"), 64) + 6,
    overrides={"WEIGHT_IS_F16": False, "HAS_WEIGHT": True, "HAS_RESIDUAL": False},
)

_FOURS = "vec4<f32>"

_RMSNORM_SUBGROUP = replace(
    _RMSNORM,
    file="rmsnorm_subgroup.wgsl",
    operands=(
        replace(_INPUT, element=_FOURS),
        Operand("residual", "input", ("f32",), _FOURS, present="HAS_RESIDUAL"),
        Operand("weight", "weight", ("f32",), _FOURS, present="HAS_WEIGHT"),
        replace(_OUTPUT, element=_FOURS),
    ),
    workgroup_size=8,
    iterations=lambda params, longest: 2 * _tiles(_number(params, "columns"), 32),
    overrides={"HAS_WEIGHT": True, "HAS_RESIDUAL": False},
    features=("subgroup",),
    subgroup_size=8,
    multiples={"columns": 4},
)

_ROPE = Signature(
    file="rope.wgsl",
    entry="main",
    meaning="rope",
    operands=(_ROWS, _INPUT, Operand("table", "constant", ("f32",), "vec2<f32>"), _OUTPUT),
    params={"heads": "u32", "head_dim": "u32"},
    workgroup_size=64,
    groups=lambda rows, sequences, params: _tiles(
        rows * _number(params, "heads") * _number(params, "head_dim") // 2, 256
    ),
    iterations=lambda params, longest: 4,
)

_POOL = Signature(
    file="pool_mean.wgsl",
    entry="main",
    meaning="pool",
    operands=(_SLOTS, _INPUT, _OUTPUT),
    params={"columns": "u32"},
    workgroup_size=64,
    groups=lambda rows, sequences, params: _tiles(sequences * _number(params, "columns"), 64),
    iterations=lambda params, longest: longest,
)

_L2NORM = Signature(
    file="l2norm.wgsl",
    entry="main",
    meaning="l2norm",
    operands=(_SLOTS, _INPUT, _OUTPUT),
    params={"columns": "u32"},
    workgroup_size=64,
    groups=lambda rows, sequences, params: sequences,
    iterations=lambda params, longest: 2 * _tiles(_number(params, "columns"), 64) + 6,
)


def _matmul(file: str, dtype: StorageType) -> Signature:
    """64 x 64 tiles, 16 deep: per step along K itself, 4 turns to load a weight value by value, 4 to use the tile."""
    return Signature(
        file=file,
        entry="main",
        meaning="matmul",
        operands=(_INPUT, Operand("weight", "weight", (dtype,), "u32"), _OUTPUT),
        params={"columns": "u32", "inner": "u32", "first_row": "u32", "row_count": "u32"},
        workgroup_size=256,
        groups=lambda rows, sequences, params: _tiles(rows, 64) * _tiles(_number(params, "row_count"), 64),
        iterations=lambda params, longest: 9 * _tiles(_number(params, "inner"), 16),
        sections=True,
    )


def _broadcast_matmul(file: str, dtype: StorageType, element: str) -> Signature:
    """Tiles of 32 rows x 32 columns, 32 deep; up to 16 rows go by eights."""
    plain = _matmul(file, dtype)
    return replace(
        plain,
        operands=(
            replace(_INPUT, element=_FOURS),
            Operand("weight", "weight", (dtype,), element),
            _OUTPUT,
        ),
        workgroup_size=8,
        groups=lambda rows, sequences, params: _tiles(rows, 32) * _tiles(_number(params, "row_count"), 32),
        iterations=lambda params, longest: 3 * (_tiles(_number(params, "inner"), 32) + 1),
        features=("subgroup",),
        subgroup_size=8,
        multiples={"inner": 32},
    )


def _attention(file: str, element: str) -> Signature:
    """16 rows see keys of at most two long sequences, and of short ones among themselves; a tile of 8 keys takes 41
    turns, and up to 32 more where it is loaded value by value."""
    q, k, v = (Operand(name, "input", ("f32",), element) for name in "qkv")
    return Signature(
        file=file,
        entry="main",
        meaning="attention",
        operands=(_ROWS, _SLOTS, q, k, v, replace(_OUTPUT, element=element)),
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
        groups=lambda rows, sequences, params: _tiles(rows, 16) * _number(params, "heads"),
        iterations=lambda params, longest: 73 * _tiles(2 * longest + 16, 8) + 64,
        overrides={"HAS_SOFTCAP": False},
        flags={"HAS_SOFTCAP": lambda params: bool(params["softcap"])},
    )


_ATTENTION_BROADCAST = replace(
    _attention("attention_broadcast.wgsl", _FOURS),
    workgroup_size=8,
    groups=lambda rows, sequences, params: _tiles(rows, 32) * _number(params, "heads"),
    # For each block of 96 keys: three tiles of scores, 32 rows of softmax, the output in parts of 32 values.
    iterations=lambda params, longest: (
        _tiles(2 * longest + 32, 96) * (36 + 7 * _tiles(_number(params, "head_dim"), 32))
        + _tiles(2 * longest + 32, 8)
        + 64
    ),
    features=("subgroup",),
    subgroup_size=8,
    multiples={"head_dim": 32},
)

_SIGNATURES = (
    _GATHER,
    _RMSNORM,
    _RMSNORM_SUBGROUP,
    _ROPE,
    _POOL,
    _L2NORM,
    _elementwise(
        "residual.wgsl", "residual", Operand("a", "input", ("f32",)), Operand("b", "input", ("f32",))
    ),
    _elementwise(
        "gelu.wgsl",
        "gelu",
        Operand("gate", "input", ("f32",)),
        Operand("up", "input", ("f32",), present="HAS_GATE"),
        HAS_GATE=True,
    ),
    _matmul("matmul_f16w_f32a.wgsl", "f16"),
    _matmul("matmul_f32.wgsl", "f32"),
    _matmul("fused_matmul_q4_batched_multicol_shared.wgsl", "q4_k"),
    _matmul("matmul_q8_0.wgsl", "q8_0"),
    _attention("attention_small.wgsl", "f32"),
    _broadcast_matmul("matmul_f16w_f32a_broadcast.wgsl", "f16", "vec4<u32>"),
    _broadcast_matmul("matmul_f32_broadcast.wgsl", "f32", _FOURS),
    _broadcast_matmul("matmul_q4_k_broadcast.wgsl", "q4_k", "vec4<u32>"),
    _broadcast_matmul("matmul_q8_0_broadcast.wgsl", "q8_0", "u32"),
    _ATTENTION_BROADCAST,
)

SIGNATURES: Mapping[tuple[str, str], Signature] = {(row.file, row.entry): row for row in _SIGNATURES}


def signature(kernel: Kernel) -> Signature:
    """The signature of a kernel a manifest or a profile names. PlanError with the nearest names if there is none."""
    found = SIGNATURES.get((kernel.file, kernel.entry))
    if found is None:
        known = [str(row) for row in _SIGNATURES]
        near = difflib.get_close_matches(str(kernel), known, 3, 0.4) or sorted(known)
        raise PlanError(f"no kernel {kernel}: expected one of wgsl/'s, the nearest are {', '.join(near)}")
    return found
