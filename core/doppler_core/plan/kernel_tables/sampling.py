"""Kernels that choose a token from logits, and keep count of those chosen."""

from doppler_core.plan.kernel_tables.parts import ROWS, SAMPLING, SLOTS, number, tiles
from doppler_core.plan.signature import Operand, Params, Signature

_SAMPLED = Operand("sampled", "input", ("u32",), "u32")
_LOGITS = Operand("input", "input", ("f32",), "u32")  # read as bits
_WORDS = Operand("output", "output", ("u32",), "u32")

_HALVINGS = 8  # of the 256 threads that look for the strongest token


def _own(params: Params) -> int:
    """Turns of a thread that visits four of a slot's tokens at a time."""
    return tiles(number(params, "columns"), 1024)


def _draw_turns(params: Params, longest: int) -> int:
    """The short way: the threads' own ranked, tokens listed, the list of 1,024 gone through twice. The search: up to
    eight rounds for each of two limits, bins cleared, then four tokens a turn, then bins added up twice in one thread.
    At the end noise for four tokens a turn."""
    own = _own(params)
    short = 256 + 6 * own + 2 * 4 * (1 + 1024) + 4
    search = 8 * (1 + 4 + 6 * own + 2 * 256 + 4)
    return own + _HALVINGS + short + 2 * search + max(16 * own, 44) + _HALVINGS


SIGNATURES: tuple[Signature, ...] = (
    Signature(
        file="sample.wgsl",
        entry="sample_single_pass",
        meaning="sample",
        operands=(_LOGITS, _WORDS),
        params={"columns": "u32"},
        workgroup_size=256,
        groups=lambda rows, sequences, params: rows,
        iterations=lambda params, longest: _own(params) + _HALVINGS,
    ),
    Signature(
        file="adjust.wgsl",
        entry="main",
        meaning="adjust",
        operands=(
            SAMPLING,
            SLOTS,
            Operand("logits", "input", ("f32",), "u32"),
            Operand("counts", "input", ("u32",), "u32"),
            Operand("bias", "input", ("f32",), "u32"),
            Operand("mask", "input", ("u32",), "u32"),
            Operand("output", "output", ("f32",), "u32"),
        ),
        params={"columns": "u32"},
        workgroup_size=256,
        groups=lambda rows, sequences, params: rows * tiles(number(params, "columns"), 1024),
        iterations=lambda params, longest: 4,
    ),
    Signature(
        file="draw.wgsl",
        entry="main",
        meaning="draw",
        operands=(ROWS, SAMPLING, _LOGITS, _WORDS),
        params={"columns": "u32"},
        workgroup_size=256,
        groups=lambda rows, sequences, params: rows,
        iterations=_draw_turns,
    ),
    Signature(
        file="logprobs.wgsl",
        entry="main",
        meaning="logprobs",
        operands=(_LOGITS, _SAMPLED, _WORDS),
        params={"columns": "u32"},
        workgroup_size=256,
        groups=lambda rows, sequences, params: rows,
        iterations=lambda params, longest: (
            _own(params)
            + tiles(number(params, "columns"), 256)
            + 2 * _HALVINGS
            + 20 * (1 + 2 * _HALVINGS + tiles(number(params, "columns"), 65_536))
        ),
    ),
    Signature(
        file="count.wgsl",
        entry="main",
        meaning="count",
        operands=(SLOTS, _SAMPLED, _WORDS),
        params={"vocabulary": "u32"},
        workgroup_size=64,
        groups=lambda rows, sequences, params: tiles(rows, 64),
        iterations=lambda params, longest: 0,
    ),
    Signature(
        file="advance.wgsl",
        entry="main",
        meaning="advance",
        operands=(_SAMPLED, Operand("output", "output", ("u32",), "vec4<u32>")),
        params={"vocabulary": "u32"},
        workgroup_size=64,
        groups=lambda rows, sequences, params: tiles(rows, 64),
        iterations=lambda params, longest: 0,
    ),
)
