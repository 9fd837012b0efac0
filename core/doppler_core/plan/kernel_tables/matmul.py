"""Matrix products: a kernel for each type a weight is stored in, and for each kind of device."""

from dataclasses import replace

from doppler_core.plan.kernel_tables.parts import FOURS, INPUT, OUTPUT, number, tiles
from doppler_core.plan.signature import Operand, Signature
from doppler_core.weights.tensor import StorageType


def _matmul(file: str, dtype: StorageType) -> Signature:
    """64 x 64 tiles, 16 deep: per step along K itself, 4 turns to load a weight value by value, 4 to use the tile."""
    return Signature(
        file=file,
        entry="main",
        meaning="matmul",
        operands=(INPUT, Operand("weight", "weight", (dtype,), "u32"), OUTPUT),
        params={"columns": "u32", "inner": "u32", "first_row": "u32", "row_count": "u32"},
        workgroup_size=256,
        groups=lambda rows, sequences, params: tiles(rows, 64) * tiles(number(params, "row_count"), 64),
        iterations=lambda params, longest: 9 * tiles(number(params, "inner"), 16),
        sections=1,
    )


def _broadcast_matmul(file: str, dtype: StorageType, element: str) -> Signature:
    """Tiles of 32 rows x 32 columns, 32 deep; up to 16 rows go by eights."""
    plain = _matmul(file, dtype)
    return replace(
        plain,
        operands=(
            replace(INPUT, element=FOURS),
            Operand("weight", "weight", (dtype,), element),
            OUTPUT,
        ),
        workgroup_size=8,
        groups=lambda rows, sequences, params: tiles(rows, 32) * tiles(number(params, "row_count"), 32),
        iterations=lambda params, longest: 3 * (tiles(number(params, "inner"), 32) + 1),
        features=("subgroup",),
        subgroup_size=8,
        multiples={"inner": 32},
    )


SIGNATURES: tuple[Signature, ...] = (
    _matmul("matmul_f16w_f32a.wgsl", "f16"),
    _matmul("matmul_f32.wgsl", "f32"),
    _matmul("fused_matmul_q4_batched_multicol_shared.wgsl", "q4_k"),
    _matmul("matmul_q8_0.wgsl", "q8_0"),
    _broadcast_matmul("matmul_f16w_f32a_broadcast.wgsl", "f16", "vec4<u32>"),
    _broadcast_matmul("matmul_f32_broadcast.wgsl", "f32", FOURS),
    _broadcast_matmul("matmul_q4_k_broadcast.wgsl", "q4_k", "vec4<u32>"),
    _broadcast_matmul("matmul_q8_0_broadcast.wgsl", "q8_0", "u32"),
)
