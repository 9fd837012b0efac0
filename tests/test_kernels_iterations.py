"""The bounds on loops hold: kernels that count their own turns never pass what their signature says.

Mesa 22 ends all loops of an invocation after 65,535 turns and says nothing, so that a bound too low means wrong
numbers on some long text. Every loop of the WGSL is made to count; a count above the bound spoils the output.
"""

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from gpu_ops import Case, packed_step, software_gpu

from doppler_core.device.gpu import Gpu
from doppler_core.manifest.kernel_text import kernel_text
from doppler_core.plan.kernels import SIGNATURES
from doppler_core.plan.op import Constant
from doppler_core.plan.signature import Signature, kernel_params

SPOILED = np.float32(1e30)
# Their loops are those of broadcast_matmul.wgsl, as matmul_f32_broadcast.wgsl's are, and they take seconds to compile.
SAME_LOOPS = ("matmul_f16w_f32a_broadcast.wgsl", "matmul_q4_k_broadcast.wgsl", "matmul_q8_0_broadcast.wgsl")
LENGTHS = {"attention": [150, 3, 90, 1, 1, 60]}


def counting(row: Signature, bound: int) -> Callable[[str], str]:
    """kernel_text, but the kernel counts the turns of its loops and spoils its first output above the bound."""

    def text(file: str) -> str:
        source = kernel_text(file)
        if file != row.file:
            return source
        source = re.sub(r"(for \([^{]*\) \{)", r"\1 turns += 1u;", source)
        head, arguments = re.search(
            r"(@compute @workgroup_size\(\d+\)\s*)fn main\((.*?)\) \{", source, re.DOTALL
        ).groups()
        plain = re.sub(r"@builtin\(\w+\) ", "", arguments)
        names = ", ".join(re.findall(r"(\w+):", plain))
        element = row.operands[-1].element
        return source.replace(f"{head}fn main({arguments})", f"fn counted({plain})") + (
            f"var<private> turns: u32;\n{head}fn main({arguments}) {{\n    counted({names});\n"
            f"    if (turns > {bound}u) {{ output[0] = {element}({SPOILED}); }}\n}}\n"
        )

    return text


def example(row: Signature) -> Case:
    """An op for the kernel, at a size that fits no tile where the kernel allows that."""
    step = packed_step(LENGTHS.get(row.meaning, [37, 1, 20]), dimensions=50)
    rows, sequences = len(step.rows), len(step.slots)
    columns = 96 if row.multiples else 90
    if row.meaning == "l2norm":
        step, rows = packed_step([1] * sequences, dimensions=50), sequences

    def x(width: int) -> np.ndarray:
        return np.random.default_rng(width).standard_normal((rows, width), np.float32)

    base = Case(row.meaning, f"{row.file}#{row.entry}", {"columns": columns}, step, columns=columns)
    weight = next((operand for operand in row.operands if operand.kind == "weight"), None)
    read = "f32" if weight is None else weight.dtypes[0]
    match row.meaning:
        case "gather":
            table = np.ones((rows, columns), np.float32)
            return replace(
                base, params={**base.params, "scale": 1.0}, weights=[table], weight_types=[(read, read)]
            )
        case "rmsnorm":
            params = {"columns": columns, "eps": 1e-6, "offset": 1}
            return replace(
                base,
                params=params,
                inputs=[x(columns)],
                weights=[x(columns)[0]],
                weight_types=[("f32", "f32")],
            )
        case "matmul":
            weights = [np.ones((70, columns * 4), np.float32)]
            params = {"columns": 70, "inner": columns * 4}
            return replace(
                base,
                params=params,
                inputs=[x(columns * 4)],
                weights=weights,
                weight_types=[(read, read)],
                columns=70,
            )
        case "rope":
            table = Constant(
                "turn",
                "rope",
                (64, 5, 2),
                {"positions": 64, "head_dim": 10, "theta": 1e4, "scaling_factor": 1.0},
            )
            return replace(base, params={"heads": 9, "head_dim": 10}, inputs=[x(90)], constants=[table])
        case "attention":
            head = 96 if row.multiples else 90
            params = {
                "heads": 2,
                "kv_heads": 1,
                "head_dim": head,
                "scale": 0.1,
                "window": 0,
                "causal": False,
                "softcap": 0.0,
            }
            return replace(base, params=params, inputs=[x(2 * head), x(head), x(head)], columns=2 * head)
        case "residual" | "gelu":
            return replace(base, inputs=[x(columns), x(columns)])
    return replace(base, inputs=[x(columns)])


def fresh_gpu() -> Gpu:
    """The shared device with no kernels compiled."""
    return replace(software_gpu(), _modules={}, _pipelines={})


@pytest.mark.parametrize("row", [row for row in SIGNATURES.values() if row.file not in SAME_LOOPS], ids=str)
def test_no_invocation_takes_more_turns_than_the_signature_says(row: Signature) -> None:
    case = example(row)
    plan, _ = case.plan()
    longest = int(case.tables.slots[:, 1].max())
    bound = row.iterations(kernel_params(row, plan.phases["encode"][-1]), longest)
    np.testing.assert_array_equal(case.run(fresh_gpu(), counting(row, bound)), case.run())


def test_a_turn_too_many_would_show() -> None:
    row = SIGNATURES["l2norm.wgsl", "main"]
    case = example(row)
    # 90 columns and 50 dimensions: for the busiest thread one turn to sum, six to reduce, two to store.
    assert case.run(fresh_gpu(), counting(row, 8))[0, 0] == SPOILED
    assert case.run(fresh_gpu(), counting(row, 9))[0, 0] != SPOILED


@pytest.mark.parametrize("file", SAME_LOOPS)
def test_the_matmuls_left_out_above_have_no_loops_of_their_own(file: str) -> None:
    others = "matmul_f32_broadcast.wgsl"
    assert kernel_text(file).count("for (") == kernel_text(others).count("for (")
