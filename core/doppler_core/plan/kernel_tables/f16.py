"""Kernels for f16 activations: twins of those for f32, with the same operands, params and grids; and the casts between.

Arithmetic is f32 in all of them: f16 is what they load and store.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal

from doppler_core.plan.kernel_tables.parts import INPUT, OUTPUT, number, tiles
from doppler_core.plan.signature import Operand, Signature

# Files of kernels for f32 activations, and of their twins, which have the same entries.
TWINS: Mapping[str, str] = {
    "rmsnorm.wgsl": "rmsnorm_f16.wgsl",
    "rope.wgsl": "rope_f16.wgsl",
    "gelu.wgsl": "gelu_f16.wgsl",
    "residual.wgsl": "residual_f16.wgsl",
    "store.wgsl": "store_f16.wgsl",
    "matmul_f16w_f32a.wgsl": "matmul_f16w_f16a.wgsl",
    "fused_matmul_q4_batched_multicol_shared.wgsl": "fused_matmul_q4_widetile_f16a.wgsl",
    "attention_small_f16kv.wgsl": "attention_small_f16.wgsl",
    "attention_head256_f16kv.wgsl": "attention_head256_f16.wgsl",
    "attention_head512_f16kv.wgsl": "attention_head512_f16.wgsl",
    "expert_matmul.wgsl": "expert_matmul_f16.wgsl",
    "expert_matmul_q4_k.wgsl": "expert_matmul_q4_k_f16.wgsl",
    "expert_sum.wgsl": "expert_sum_f16.wgsl",
}

FEATURE = "shader-f16"


def twins(rows: Iterable[Signature]) -> tuple[Signature, ...]:
    """The rows of the twins of those among the rows that have one."""
    return tuple(_twin(row) for row in rows if row.file in TWINS)


def _twin(row: Signature) -> Signature:
    operands = tuple(_narrowed(operand) for operand in row.operands)
    return replace(row, file=TWINS[row.file], operands=operands, features=(*row.features, FEATURE))


def _narrowed(operand: Operand) -> Operand:
    """An activation in f16; a weight, a state and what is read as whole numbers stay what they are."""
    if operand.kind not in ("input", "output") or operand.dtypes != ("f32",):
        return operand
    return replace(operand, dtypes=("f16",), element=operand.element.replace("f32", "f16"))


def _cast(source: Literal["f32", "f16"], target: Literal["f32", "f16"]) -> Signature:
    return Signature(
        file=f"cast_{source}_to_{target}.wgsl",
        entry="main",
        meaning="cast",
        operands=(
            replace(INPUT, dtypes=(source,), element=source),
            replace(OUTPUT, dtypes=(target,), element=target),
        ),
        params={"columns": "u32"},
        workgroup_size=256,
        groups=lambda rows, sequences, params: tiles(rows * number(params, "columns"), 1024),
        iterations=lambda params, longest: 4,
        features=(FEATURE,),
    )


CASTS: tuple[Signature, ...] = (_cast("f32", "f16"), _cast("f16", "f32"))
