"""The bounds on loops hold: kernels that count their own turns never pass what their signature says.

Mesa 22 ends all loops of an invocation after 65,535 turns and says nothing, so that a bound too low means wrong
numbers on some long text. Every loop of the WGSL is made to count; a count above the bound spoils the output.
"""

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from gpu_ops import software_gpu
from kernel_examples import example

from doppler_core.device.gpu import Gpu
from doppler_core.manifest.kernel_text import kernel_text
from doppler_core.plan.kernel_tables.f16 import TWINS
from doppler_core.plan.kernels import SIGNATURES
from doppler_core.plan.signature import Signature, kernel_params

SPOILED = np.float32(1e30)
# Their loops are those of broadcast_matmul.wgsl, as matmul_f32_broadcast.wgsl's are, and they take seconds to compile.
# So are a twin's those of the kernel for f32.
SAME_LOOPS = tuple(
    f"matmul_{kind}_broadcast.wgsl" for kind in ("f16w_f32a", "q4_k", "q8_0x8", "q5_0", "q6_k")
)


def counting(row: Signature, bound: int) -> Callable[[str], str]:
    """kernel_text, but the kernel counts the turns of its loops and spoils its first output above the bound."""

    def text(file: str) -> str:
        source = kernel_text(file)
        if file != row.file:
            return source
        source = re.sub(r"(for \([^{]*\) \{)", r"\1 turns += 1u;", source)
        head, arguments = re.search(
            rf"(@compute @workgroup_size\(\d+\)\s*)fn {row.entry}\((.*?)\) \{{", source, re.DOTALL
        ).groups()
        plain = re.sub(r"@builtin\(\w+\) ", "", arguments)
        names = ", ".join(re.findall(r"(\w+):", plain))
        element = next(operand.element for operand in row.operands if operand.kind == "output")
        number = {"f32": str(SPOILED), "f16": "6e4"}.get(element[-4:].strip("<>"), "0x7bff7bffu")
        spoiled = f"{element}({number})"
        return source.replace(f"{head}fn {row.entry}({arguments})", f"fn counted({plain})") + (
            f"var<private> turns: u32;\n{head}fn {row.entry}({arguments}) {{\n    counted({names});\n"
            f"    if (turns > {bound}u) {{ output[0] = {spoiled}; }}\n}}\n"
        )

    return text


def fresh_gpu() -> Gpu:
    """The shared device with no kernels compiled."""
    return replace(software_gpu(), _modules={}, _pipelines={})


def loops(row: Signature) -> bool:
    """Whether it has loops of its own."""
    return "for (" in kernel_text(row.file) and row.file not in (*SAME_LOOPS, *TWINS.values())


@pytest.mark.parametrize("row", [row for row in SIGNATURES.values() if loops(row)], ids=str)
def test_no_invocation_takes_more_turns_than_the_signature_says(row: Signature) -> None:
    case = example(row)
    plan, _ = case.plan()
    longest = int(case.tables.slots[:, 1].max())
    op = [each for each in plan.phases["encode"] if str(each.kernel) == str(row)][-1]
    bound = row.iterations(kernel_params(row, op), longest)
    np.testing.assert_array_equal(case.run(fresh_gpu(), counting(row, bound)), case.run())


# One of those for few rows, one of those for many, and the one with loops of its own.
@pytest.mark.parametrize("kind", ["streaming_f16kv", "small_f16kv", "cached_broadcast"])
def test_a_canvas_takes_no_more_turns_than_the_signature_says(kind: str) -> None:
    """Its rows see more than their window."""
    row = SIGNATURES[f"attention_{kind}.wgsl", "main"]
    plain = example(row)
    case = replace(plain, params={**plain.params, "window": 8, "canvas": True})
    plan, _ = case.plan()
    bound = row.iterations(kernel_params(row, plan.phases["encode"][-1]), 37)
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


@pytest.mark.parametrize("file", TWINS)
def test_a_twin_has_the_loops_of_the_kernel_for_f32(file: str) -> None:
    parts = [re.findall(r"for \([^{]*\) \{", kernel_text(name)) for name in (file, TWINS[file])]
    assert parts[0] == parts[1]
    for row in SIGNATURES.values():
        if row.file == file:
            assert SIGNATURES[TWINS[file], row.entry].iterations is row.iterations
