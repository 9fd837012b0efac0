"""Kernels beside matmuls, attention and sampling: embedding rows, norms, rotation, elementwise ops, pooling."""

from dataclasses import replace

from doppler_core.plan.kernel_tables.parts import FOURS, INPUT, OUTPUT, ROWS, SLOTS, number, tiles
from doppler_core.plan.signature import Operand, Signature
from doppler_core.weights.tensor import StorageType

_RESIDUAL = Signature(
    file="residual.wgsl",
    entry="main",
    meaning="residual",
    operands=(Operand("a", "input", ("f32",)), Operand("b", "input", ("f32",)), OUTPUT),
    params={"columns": "u32"},
    workgroup_size=256,
    groups=lambda rows, sequences, params: tiles(rows * number(params, "columns"), 1024),
    iterations=lambda params, longest: 4,
)

_GELU = replace(
    _RESIDUAL,
    file="gelu.wgsl",
    meaning="gelu",
    operands=(
        Operand("gate", "input", ("f32",)),
        Operand("up", "input", ("f32",), present="HAS_GATE"),
        OUTPUT,
    ),
    params={"columns": "u32", "up_first": "u32", "gate_columns": "u32", "up_columns": "u32"},
    defaults={"up_first": 0},
    overrides={"HAS_GATE": True},
)

_SOFTCAP = replace(
    _RESIDUAL,
    file="softcap.wgsl",
    meaning="softcap",
    operands=(INPUT, OUTPUT),
    params={"cap": "f32", "columns": "u32"},
)

_GATHER = Signature(
    file="gather.wgsl",
    entry="main",
    meaning="gather",
    operands=(ROWS, Operand("weight", "weight", ("f16", "f32"), "u32", half="WEIGHT_IS_F16"), OUTPUT),
    params={"scale": "f32", "columns": "u32", "first_row": "u32", "row_count": "u32"},
    workgroup_size=256,
    groups=lambda rows, sequences, params: tiles(rows * number(params, "columns"), 1024),
    iterations=lambda params, longest: 4,
    overrides={"WEIGHT_IS_F16": True},
    sections=1,
)

_GATHER_SPLIT8 = replace(
    _GATHER,
    file="gather_split8_f16_vec4_f32_out.wgsl",
    entry="gather_vec4_f32_out",
    operands=(
        ROWS,
        *(
            Operand(f"table{n}", "weight", ("f16", "f32"), "vec2<u32>", half="WEIGHT_IS_F16", section=n)
            for n in range(8)
        ),
        replace(OUTPUT, element=FOURS),
    ),
    params={**_GATHER.params, "section_rows": "u32"},
    workgroup_size=64,
    groups=lambda rows, sequences, params: tiles(rows * number(params, "columns"), 256),
    iterations=lambda params, longest: 0,
    sections=8,
    multiples={"columns": 4},
)


def _packed_gather(dtype: StorageType) -> Signature:
    return replace(
        _GATHER,
        file=f"gather_{dtype}.wgsl",
        operands=(ROWS, Operand("weight", "weight", (dtype,), "u32"), replace(OUTPUT, element=FOURS)),
        workgroup_size=64,
        groups=lambda rows, sequences, params: tiles(rows * number(params, "columns"), 256),
        iterations=lambda params, longest: 0,
        overrides={},
        multiples={"columns": 32},
    )


_RMSNORM = Signature(
    file="rmsnorm.wgsl",
    entry="main",
    meaning="rmsnorm",
    operands=(
        INPUT,
        Operand("residual", "input", ("f32",), present="HAS_RESIDUAL"),
        Operand("weight", "weight", ("f32", "f16"), "u32", present="HAS_WEIGHT", half="WEIGHT_IS_F16"),
        OUTPUT,
    ),
    params={"eps": "f32", "offset": "f32", "gain": "f32", "columns": "u32", "segments": "u32"},
    defaults={"gain": 1.0},
    workgroup_size=64,
    groups=lambda rows, sequences, params: rows * number(params, "segments"),
    iterations=lambda params, longest: 2 * tiles(number(params, "columns"), 64) + 6,
    overrides={"WEIGHT_IS_F16": True, "HAS_WEIGHT": True, "HAS_RESIDUAL": False},
)

_RMSNORM_SUBGROUP = replace(
    _RMSNORM,
    file="rmsnorm_subgroup.wgsl",
    operands=(
        replace(INPUT, element=FOURS),
        Operand("residual", "input", ("f32",), FOURS, present="HAS_RESIDUAL"),
        Operand("weight", "weight", ("f32",), FOURS, present="HAS_WEIGHT"),
        replace(OUTPUT, element=FOURS),
    ),
    workgroup_size=8,
    iterations=lambda params, longest: 2 * tiles(number(params, "columns"), 32),
    overrides={"HAS_WEIGHT": True, "HAS_RESIDUAL": False},
    features=("subgroup",),
    subgroup_size=8,
    multiples={"columns": 4},
)

_ROPE = Signature(
    file="rope.wgsl",
    entry="main",
    meaning="rope",
    operands=(
        ROWS,
        INPUT,
        Operand("weight", "weight", ("f32", "f16"), "u32", present="HAS_NORM", half="WEIGHT_IS_F16"),
        Operand("table", "constant", ("f32",), "vec2<f32>"),
        OUTPUT,
    ),
    params={"heads": "u32", "head_dim": "u32", "eps": "f32", "offset": "f32"},
    defaults={"eps": 0.0, "offset": 0.0},
    workgroup_size=64,
    groups=lambda rows, sequences, params: rows * number(params, "heads"),
    iterations=lambda params, longest: 2 * tiles(number(params, "head_dim"), 64) + 6,
    overrides={"WEIGHT_IS_F16": True, "HAS_NORM": False},
)

_ROPE_SUBGROUP = replace(
    _ROPE,
    file="rope_subgroup.wgsl",
    operands=(
        ROWS,
        replace(INPUT, element=FOURS),
        Operand("weight", "weight", ("f32",), FOURS, present="HAS_NORM"),
        Operand("table", "constant", ("f32",), FOURS),
        replace(OUTPUT, element=FOURS),
    ),
    workgroup_size=8,
    iterations=lambda params, longest: 2 * tiles(number(params, "head_dim"), 32),
    overrides={"HAS_NORM": False},
    features=("subgroup",),
    subgroup_size=8,
    multiples={"head_dim": 8},
)

_STORE = Signature(
    file="store.wgsl",
    entry="main",
    meaning="store",
    operands=(
        ROWS,
        SLOTS,
        Operand("k", "input", ("f32",)),
        Operand("v", "input", ("f32",)),
        Operand("weight", "weight", ("f32", "f16"), "u32", present="HAS_KEY_NORM", half="WEIGHT_IS_F16"),
        Operand("table", "constant", ("f32",), "vec2<f32>", present="HAS_ROTATION"),
        Operand("output", "output", ("f16", "f32"), "u32", half="STATE_IS_F16"),
    ),
    params={
        "columns": "u32",
        "head_dim": "u32",
        "capacity": "u32",
        "eps": "f32",
        "offset": "f32",
        "k_first": "u32",
        "k_columns": "u32",
        "v_first": "u32",
        "v_columns": "u32",
    },
    defaults={"eps": 0.0, "offset": 0.0, "k_first": 0, "v_first": 0},
    workgroup_size=64,
    groups=lambda rows, sequences, params: rows * (number(params, "columns") // number(params, "head_dim")),
    iterations=lambda params, longest: 3 * tiles(number(params, "head_dim"), 64) + 12,
    overrides={
        "STATE_IS_F16": True,
        "WEIGHT_IS_F16": True,
        "HAS_KEY_NORM": False,
        "HAS_ROTATION": False,
        "HAS_VALUE_NORM": False,
    },
    multiples={"head_dim": 2},
    flags={"HAS_VALUE_NORM": lambda params: bool(params["value_norm"])},
)

_LAST_ROWS = Signature(
    file="last_rows.wgsl",
    entry="main",
    meaning="last_rows",
    operands=(SLOTS, INPUT, OUTPUT),
    params={"columns": "u32"},
    workgroup_size=64,
    groups=lambda rows, sequences, params: tiles(sequences * number(params, "columns"), 64),
    iterations=lambda params, longest: 0,
)

_POOL = Signature(
    file="pool_mean.wgsl",
    entry="main",
    meaning="pool",
    operands=(SLOTS, INPUT, OUTPUT),
    params={"columns": "u32"},
    workgroup_size=64,
    groups=lambda rows, sequences, params: tiles(sequences * number(params, "columns"), 64),
    iterations=lambda params, longest: longest,
)

_L2NORM = Signature(
    file="l2norm.wgsl",
    entry="main",
    meaning="l2norm",
    operands=(SLOTS, INPUT, OUTPUT),
    params={"columns": "u32"},
    workgroup_size=64,
    groups=lambda rows, sequences, params: sequences,
    iterations=lambda params, longest: 2 * tiles(number(params, "columns"), 64) + 6,
)

SIGNATURES: tuple[Signature, ...] = (
    _GATHER,
    _GATHER_SPLIT8,
    _packed_gather("q4_k"),
    _packed_gather("q8_0"),
    _packed_gather("q8_0x8"),
    _packed_gather("q5_0"),
    _packed_gather("q6_k"),
    _RMSNORM,
    _RMSNORM_SUBGROUP,
    _ROPE,
    _ROPE_SUBGROUP,
    _STORE,
    _LAST_ROWS,
    _POOL,
    _L2NORM,
    _RESIDUAL,
    _GELU,
    _SOFTCAP,
)
