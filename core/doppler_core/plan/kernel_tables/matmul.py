"""Matrix products: a kernel for each type a weight is stored in, and for each kind of device."""

from dataclasses import replace

from doppler_core.errors import PlanError
from doppler_core.plan.kernel_tables.parts import FOURS, INPUT, OUTPUT, number, tiles
from doppler_core.plan.signature import Operand, Params, Signature
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


_LONGS = "vec2<u64>"  # loads of 64 bits


def _broadcast_matmul(
    file: str, dtype: StorageType, element: str, columns: int = 32
) -> tuple[Signature, Signature]:
    """Tiles of 8 rows x 64 columns, 32 deep; and of one row x `columns`, where a dense weight may be f16 or f32."""
    dense: tuple[StorageType, ...] = ("f16", "f32")
    half = "WEIGHT_IS_F16" if dtype in dense else None
    several = replace(
        _matmul(file, dtype),
        operands=(
            replace(INPUT, element=_LONGS),
            Operand("weight", "weight", (dtype,), element, half=half),
            OUTPUT,
        ),
        workgroup_size=8,
        groups=lambda rows, sequences, params: tiles(rows, 8) * tiles(number(params, "row_count"), 64),
        iterations=lambda params, longest: tiles(number(params, "inner"), 32),
        overrides={} if half is None else {half: True},
        features=("subgroup", "shader-int64"),
        subgroup_size=8,
        multiples={"inner": 32},
        for_one="main_one",
    )
    one = replace(
        several,
        entry="main_one",
        for_one=None,
        operands=(
            several.operands[0],
            replace(several.operands[1], dtypes=dense if half else (dtype,)),
            OUTPUT,
        ),
        groups=lambda rows, sequences, params: rows * tiles(number(params, "row_count"), columns),
    )
    return several, one


_GEMV = replace(
    _matmul("matmul_gemv_subgroup.wgsl", "f16"),
    entry="main_vec4",
    operands=(
        replace(INPUT, element=FOURS),
        Operand("weight", "weight", ("f16", "f32"), "vec2<u32>", half="WEIGHT_IS_F16"),
        OUTPUT,
    ),
    # 64 of 256 threads a column, each for every 64th four values along K; 6 turns to add them up.
    groups=lambda rows, sequences, params: rows * tiles(number(params, "row_count"), 4),
    iterations=lambda params, longest: tiles(number(params, "inner"), 256) + 6,
    overrides={"WEIGHT_IS_F16": True, "MULTICOL_COLS_PER_WG": 32, "MULTICOL_THREADS_PER_COL": 8},
    multiples={"inner": 4},
)


def _multicol(params: Params) -> tuple[int, int]:
    """(columns of a workgroup, threads of a column). PlanError where the sums over a column's threads would be wrong."""
    columns = number(params, "MULTICOL_COLS_PER_WG")
    threads = number(params, "MULTICOL_THREADS_PER_COL")
    if columns < 1 or threads < 1 or threads & (threads - 1) or columns * threads > 256:
        raise PlanError(
            f"matmul_gemv_subgroup.wgsl#main_multicol: MULTICOL_COLS_PER_WG {columns} and MULTICOL_THREADS_PER_COL "
            f"{threads}: expected a power of two of threads, and at most 256 in all columns together"
        )
    return columns, threads


_GEMV_MULTICOL = replace(
    _GEMV,
    entry="main_multicol",
    groups=lambda rows, sequences, params: rows * tiles(number(params, "row_count"), _multicol(params)[0]),
    iterations=lambda params, longest: tiles(number(params, "inner"), 4 * _multicol(params)[1]) + 8,
)


def _packed_gemv(file: str, dtype: StorageType, entry: str = "main") -> Signature:
    """16 of 256 threads a column, each for every 16th run of 32 values along K, which takes 9 turns; 4 to add up."""
    return replace(
        _matmul(file, dtype),
        entry=entry,
        operands=(replace(INPUT, element=FOURS), Operand("weight", "weight", (dtype,), "u32"), OUTPUT),
        groups=lambda rows, sequences, params: rows * tiles(number(params, "row_count"), 16),
        iterations=lambda params, longest: 9 * tiles(number(params, "inner"), 512) + 4,
        multiples={"inner": 32},
    )


_PROJECTIONS = Signature(
    file="projections_q4_k_gemv.wgsl",
    entry="main",
    meaning="projections",
    operands=(
        replace(INPUT, element=FOURS),
        Operand("weight", "weight", ("f32", "f16"), "u32", half="WEIGHT_IS_F16"),
        Operand("a", "weight", ("q4_k",), "u32"),
        Operand("b", "weight", ("q4_k",), "u32", present="HAS_B"),
        Operand("c", "weight", ("q4_k",), "u32", present="HAS_C"),
        OUTPUT,
    ),
    params={
        "columns": "u32",
        "inner": "u32",
        "a_rows": "u32",
        "b_rows": "u32",
        "eps": "f32",
        "offset": "f32",
    },
    defaults={"b_rows": 0},
    workgroup_size=256,
    groups=lambda rows, sequences, params: rows * tiles(number(params, "columns"), 16),
    # The norm's sum, then as in _packed_gemv.
    iterations=lambda params, longest: (
        tiles(number(params, "inner"), 1024) + 9 * tiles(number(params, "inner"), 512) + 12
    ),
    overrides={"WEIGHT_IS_F16": True, "HAS_B": False, "HAS_C": False},
    multiples={"inner": 32},
)

_GATED = Signature(
    file="gated_q4_k_gemv.wgsl",
    entry="main",
    meaning="gated_matmul",
    operands=(
        Operand("gate", "input", ("f32",), FOURS),
        Operand("up", "input", ("f32",), FOURS),
        Operand("weight", "weight", ("q4_k",), "u32"),
        OUTPUT,
    ),
    params={
        "columns": "u32",
        "inner": "u32",
        "gate_columns": "u32",
        "up_first": "u32",
        "up_columns": "u32",
    },
    workgroup_size=256,
    groups=lambda rows, sequences, params: rows * tiles(number(params, "columns"), 16),
    iterations=lambda params, longest: 9 * tiles(number(params, "inner"), 512) + 4,
    multiples={"inner": 32, "up_first": 4},
)

SIGNATURES: tuple[Signature, ...] = (
    _matmul("matmul_f16w_f32a.wgsl", "f16"),
    _matmul("matmul_f32.wgsl", "f32"),
    _matmul("fused_matmul_q4_batched_multicol_shared.wgsl", "q4_k"),
    _matmul("matmul_q8_0.wgsl", "q8_0"),
    _matmul("matmul_q5_0.wgsl", "q5_0"),
    _matmul("matmul_q6_k.wgsl", "q6_k"),
    _GEMV,
    _GEMV_MULTICOL,
    _packed_gemv("fused_matmul_q4.wgsl", "q4_k", "main_gemv"),
    _packed_gemv("matmul_q8_0_gemv.wgsl", "q8_0"),
    _packed_gemv("matmul_q5_0_gemv.wgsl", "q5_0"),
    _packed_gemv("matmul_q6_k_gemv.wgsl", "q6_k"),
    _PROJECTIONS,
    _GATED,
    *_broadcast_matmul("matmul_f16w_f32a_broadcast.wgsl", "f16", _LONGS),
    *_broadcast_matmul("matmul_f32_broadcast.wgsl", "f32", _LONGS),
    *_broadcast_matmul("matmul_q4_k_broadcast.wgsl", "q4_k", "vec4<u32>"),
    *_broadcast_matmul("matmul_q8_0x8_broadcast.wgsl", "q8_0x8", _LONGS, columns=64),
    *_broadcast_matmul("matmul_q5_0_broadcast.wgsl", "q5_0", "u64"),
    *_broadcast_matmul("matmul_q6_k_broadcast.wgsl", "q6_k", "u64"),
)
