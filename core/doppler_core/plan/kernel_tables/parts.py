"""What rows of the kernel table share: operands that many kernels have, and the arithmetic of grids."""

from doppler_core.plan.signature import Operand, Params

ROWS = Operand("rows", "table", ("u32",), "vec4<u32>")
SLOTS = Operand("slots", "table", ("u32",), "vec4<u32>")
SAMPLING = Operand("sampling", "table", ("u32",), "vec4<u32>")
INPUT = Operand("input", "input", ("f32",))
OUTPUT = Operand("output", "output", ("f32",))
FOURS = "vec4<f32>"


def number(params: Params, name: str) -> int:
    """A param that is a whole number."""
    return int(params[name])


def tiles(size: int, tile: int) -> int:
    """How many tiles cover `size`."""
    return -(-size // tile)
