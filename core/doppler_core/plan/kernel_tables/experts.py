"""A mixture of experts: which experts serve a row, products with their matrices, their outputs added up."""

from dataclasses import replace

from doppler_core.plan.kernel_tables.parts import FOURS, INPUT, OUTPUT, number, tiles
from doppler_core.plan.signature import Operand, Params, Signature

_ROUTES = "vec2<u32>"  # an expert and the bits of its weight
_BLOCK_ROWS = 1024  # of which a workgroup lists those that want its expert
_HALVINGS = 8  # of the 256 threads that look for the greatest score

_ROUTE = Signature(
    file="route.wgsl",
    entry="main",
    meaning="route",
    operands=(
        Operand("input", "input", ("f32",), "u32"),  # read as bits
        Operand("weight", "weight", ("f32", "f16"), "u32", present="HAS_SCALE", half="WEIGHT_IS_F16"),
        Operand("output", "output", ("u32",), _ROUTES),
    ),
    params={"columns": "u32", "chosen": "u32", "normalize": "u32"},
    workgroup_size=256,
    groups=lambda rows, sequences, params: rows,
    # A rank is a look at the thread's own scores, then at all threads' greatest; at the end comes a sum.
    iterations=lambda params, longest: (
        number(params, "chosen") * (tiles(number(params, "columns"), 256) + _HALVINGS + 1)
        + tiles(number(params, "columns"), 256)
        + _HALVINGS
    ),
    overrides={"HAS_SCALE": False, "WEIGHT_IS_F16": True},
    most={"chosen": 256},
)


def _experts(params: Params) -> int:
    """How many experts have lines in the section."""
    first, count, columns = (number(params, name) for name in ("first_row", "row_count", "columns"))
    return (first + count - 1) // columns - first // columns + 1


def _expert_matmul(file: str, weight: Operand, multiple: int) -> tuple[Signature, Signature]:
    """64 columns of an expert for the rows among 1,024 that want it, 16 at a time, 16 deep, all of them at worst; and the
    entry for one row: 16 of 256 threads a column, each for every 16th run of 16 values along K, 4 turns to add up."""
    several = Signature(
        file=file,
        entry="main",
        meaning="expert_matmul",
        operands=(
            replace(INPUT, element=FOURS),
            Operand("routes", "input", ("u32",), _ROUTES),
            weight,
            OUTPUT,
        ),
        params={
            "columns": "u32",
            "inner": "u32",
            "chosen": "u32",
            "parts": "u32",
            "own_inputs": "u32",
            "first_row": "u32",
            "row_count": "u32",
        },
        workgroup_size=64,
        groups=lambda rows, sequences, params: (
            tiles(rows, _BLOCK_ROWS) * _experts(params) * tiles(number(params, "columns"), 64)
        ),
        iterations=lambda params, longest: (
            tiles(_BLOCK_ROWS * number(params, "chosen"), 64)
            + tiles(_BLOCK_ROWS, 16) * (5 + tiles(number(params, "inner"), 16))
        ),
        overrides={} if weight.half is None else {weight.half: True},
        sections=1,
        multiples={"inner": multiple},
        for_one="main_one",
    )
    one = replace(
        several,
        entry="main_one",
        workgroup_size=256,
        groups=lambda rows, sequences, params: (
            rows * number(params, "chosen") * tiles(number(params, "columns"), 16)
        ),
        iterations=lambda params, longest: tiles(number(params, "inner"), 256) + 4,
        for_one=None,
    )
    return several, one


_EXPERT_SUM = Signature(
    file="expert_sum.wgsl",
    entry="main",
    meaning="expert_sum",
    operands=(INPUT, Operand("routes", "input", ("u32",), _ROUTES), OUTPUT),
    params={"columns": "u32", "chosen": "u32"},
    workgroup_size=256,
    groups=lambda rows, sequences, params: tiles(rows * number(params, "columns"), 256),
    iterations=lambda params, longest: number(params, "chosen"),
)

SIGNATURES: tuple[Signature, ...] = (
    _ROUTE,
    *_expert_matmul(
        "expert_matmul.wgsl",
        Operand("weight", "weight", ("f16", "f32"), "vec2<u32>", half="WEIGHT_IS_F16"),
        multiple=4,
    ),
    *_expert_matmul(
        "expert_matmul_q4_k.wgsl", Operand("weight", "weight", ("q4_k",), "vec4<u32>"), multiple=16
    ),
    _EXPERT_SUM,
)
