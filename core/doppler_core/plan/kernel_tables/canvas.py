"""A denoising step of a canvas: its tokens into the step's rows, its logits tallied and blended, its next tokens."""

from doppler_core.plan.canvas import BLOCK
from doppler_core.plan.kernel_tables.parts import FOURS, INPUT, OUTPUT, ROWS, SAMPLING, SLOTS, number, tiles
from doppler_core.plan.signature import Operand, Params, Signature

_FOUR_WORDS, _TWO_WORDS = "vec4<u32>", "vec2<u32>"
_LOGITS = Operand("input", "input", ("f32",), "u32")  # read as bits
_TALLY = Operand("tally", "input", ("u32",), _FOUR_WORDS)
_NOISE = Operand("noise", "input", ("u32",), _TWO_WORDS)
_PICKS = Operand("picks", "input", ("u32",), _FOUR_WORDS)
_CANVAS = Operand("canvas", "input", ("u32",), _FOUR_WORDS)
_LINES = Operand("output", "output", ("u32",), _FOUR_WORDS)

_HALVINGS = 8  # of the 256 threads of a workgroup


def _pick_turns(params: Params, longest: int) -> int:
    """The blocks of a thread three times, three sums over the threads, four looks for one of them, and a logit."""
    blocks = number(params, "tally_columns") // 4 - 1
    return 3 * tiles(blocks, 256) + 7 * _HALVINGS + tiles(number(params, "inner"), 4)


SIGNATURES: tuple[Signature, ...] = (
    Signature(
        file="seat.wgsl",
        entry="main",
        meaning="seat",
        operands=(SLOTS, _CANVAS, _LINES),
        params={"capacity": "u32"},
        workgroup_size=64,
        groups=lambda rows, sequences, params: tiles(rows, 64),
        iterations=lambda params, longest: 0,
    ),
    Signature(
        file="recall.wgsl",
        entry="main",
        meaning="recall",
        operands=(ROWS, SLOTS, INPUT, OUTPUT),
        params={"columns": "u32", "capacity": "u32"},
        workgroup_size=256,
        groups=lambda rows, sequences, params: tiles(rows * number(params, "columns"), 1024),
        iterations=lambda params, longest: 4,
    ),
    Signature(
        file="noise.wgsl",
        entry="main",
        meaning="noise",
        operands=(ROWS, SLOTS, SAMPLING, Operand("output", "output", ("u32",), _TWO_WORDS)),
        params={"capacity": "u32", "vocabulary": "u32"},
        workgroup_size=64,
        groups=lambda rows, sequences, params: tiles(rows, 64),
        iterations=lambda params, longest: 10,
    ),
    Signature(
        file="tally.wgsl",
        entry="main",
        meaning="tally",
        operands=(ROWS, SLOTS, SAMPLING, _LOGITS, _LINES),
        params={"columns": "u32", "first": "u32", "capacity": "u32", "output_columns": "u32"},
        workgroup_size=256,
        groups=lambda rows, sequences, params: rows,
        # 32 blocks at a time, 8 threads each, which go over their 32 tokens twice and add up in 3 turns.
        iterations=lambda params, longest: (
            tiles(number(params, "columns"), 32 * BLOCK) * (1 + 2 * (32 + 3)) + _HALVINGS
        ),
    ),
    Signature(
        file="blend.wgsl",
        entry="main",
        meaning="blend",
        operands=(
            ROWS,
            SLOTS,
            SAMPLING,
            _LOGITS,
            _TALLY,
            Operand("weight", "weight", ("f16", "f32"), "u32", half="WEIGHT_IS_F16"),
            OUTPUT,
        ),
        params={
            "columns": "u32",
            "inner": "u32",
            "first": "u32",
            "capacity": "u32",
            "tally_columns": "u32",
            "first_row": "u32",
            "row_count": "u32",
        },
        workgroup_size=256,
        groups=lambda rows, sequences, params: tiles(rows, 64) * tiles(number(params, "columns"), 64),
        # 16 tokens a turn: four logits weighed, four values of their rows brought, four steps of the product.
        iterations=lambda params, longest: 13 * tiles(number(params, "inner"), 16),
        overrides={"WEIGHT_IS_F16": True},
        sections=1,
    ),
    Signature(
        file="pick.wgsl",
        entry="main",
        meaning="pick",
        operands=(
            ROWS,
            SLOTS,
            SAMPLING,
            Operand("hidden", "input", ("f32",), FOURS),
            _TALLY,
            _NOISE,
            Operand("weight", "weight", ("f16", "f32"), _TWO_WORDS, half="WEIGHT_IS_F16"),
            _LINES,
        ),
        params={
            "inner": "u32",
            "cap": "f32",
            "capacity": "u32",
            "tally_columns": "u32",
            "first_row": "u32",
            "row_count": "u32",
        },
        workgroup_size=256,
        groups=lambda rows, sequences, params: rows,
        iterations=_pick_turns,
        overrides={"WEIGHT_IS_F16": True},
        sections=1,
        multiples={"inner": 4},
    ),
    Signature(
        file="soften.wgsl",
        entry="main",
        meaning="soften",
        operands=(ROWS, SLOTS, _PICKS, OUTPUT),
        params={"columns": "u32", "capacity": "u32", "scale": "f32"},
        workgroup_size=256,
        groups=lambda rows, sequences, params: tiles(rows * number(params, "columns"), 1024),
        iterations=lambda params, longest: 4,
    ),
    Signature(
        file="progress.wgsl",
        entry="main",
        meaning="progress",
        operands=(ROWS, SLOTS, _PICKS, _CANVAS, _LINES),
        params={"capacity": "u32"},
        workgroup_size=64,
        groups=lambda rows, sequences, params: sequences,
        iterations=lambda params, longest: tiles(number(params, "capacity"), 64) + 3 * 6,
    ),
    Signature(
        file="accept.wgsl",
        entry="main",
        meaning="accept",
        operands=(ROWS, SLOTS, SAMPLING, _PICKS, _NOISE, _LINES),
        params={"capacity": "u32"},
        workgroup_size=64,
        groups=lambda rows, sequences, params: tiles(rows, 64),
        iterations=lambda params, longest: number(params, "capacity"),
    ),
)
