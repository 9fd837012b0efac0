"""The table of kernels says what the WGSL says: every file is parsed and compared with its signature."""

import re
from dataclasses import dataclass

import pytest

from doppler_core.errors import PlanError
from doppler_core.manifest.kernel_text import kernel_text
from doppler_core.plan.kernels import SIGNATURES, for_one_row, signature
from doppler_core.plan.meaning import MEANINGS
from doppler_core.plan.op import Kernel
from doppler_core.plan.signature import FIRST_OPERAND, MAX_GRID, Signature, split_grid
from doppler_core.settings import data_dir

ROWS = list(SIGNATURES.values())
ELEMENT_BYTES = {"f32": 4, "u32": 4, "atomic<u32>": 4, "vec2<u32>": 8, "vec2<f32>": 8, "vec4<f32>": 16}


@dataclass(frozen=True)
class Binding:
    number: int
    space: str
    access: str
    name: str
    type: str


def bindings(text: str) -> list[Binding]:
    form = r"@group\(0\) @binding\((\d+)\) var<(\w+)(?:, (\w+))?> (\w+): ([^;]+);"
    found = re.findall(form, text)
    return sorted(
        (Binding(int(n), space, access, name, kind) for n, space, access, name, kind in found),
        key=lambda b: b.number,
    )


def without_aliases(text: str) -> str:
    """Each alias of a number's type replaced by the type."""
    for name, kind in re.findall(r"alias (\w+) = (f\d+);", text):
        text = re.sub(rf"\b{name}\b", kind, text)
    return text


def struct_fields(text: str, name: str) -> dict[str, str]:
    body = re.search(rf"struct {name} \{{(.*?)\}}", text, re.DOTALL)
    assert body is not None
    return dict(re.findall(r"(\w+): (\w+),", body[1]))


def overrides(text: str) -> dict[str, object]:
    found = re.findall(r"override (\w+): (\w+) = (\w+);", text)
    return {name: value == "true" if kind == "bool" else int(value) for name, kind, value in found}


def workgroup_bytes(text: str) -> int:
    numbers = dict(re.findall(r"const (\w+)(?:: u32)? = ([^;]+);", text))

    def number(expression: str) -> int:
        for _ in range(3):
            expression = re.sub(r"[A-Z]\w*", lambda name: f"({numbers[name[0]]})", expression)
        return int(eval(re.sub(r"(\d+)u", r"\1", expression), {"__builtins__": {}}))

    total = 0
    for kind in re.findall(r"var<workgroup> \w+: ([^;]+);", text):
        array = re.fullmatch(r"array<(.+), ([^,]+)>", kind)
        total += ELEMENT_BYTES[array[1]] * number(array[2]) if array else ELEMENT_BYTES[kind]
    return total


def test_every_kernel_file_with_an_entry_has_a_signature_and_the_other_way_round() -> None:
    folder = data_dir("wgsl")
    entries = {
        (path.name, entry)
        for path in folder.glob("*.wgsl")
        if not is_part(path.name)
        for entry in re.findall(r"@compute[^{]*?fn (\w+)\(", kernel_text(path.name))
    }
    assert entries == set(SIGNATURES)


def is_part(file: str) -> bool:
    return any(f"//!include {file}\n" in path.read_text() for path in data_dir("wgsl").glob("*.wgsl"))


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_bindings_are_step_params_and_the_operands_in_order(row: Signature) -> None:
    found = bindings(without_aliases(kernel_text(row.file)))
    assert [(b.number, b.space, b.name, b.type) for b in found[:FIRST_OPERAND]] == [
        (0, "uniform", "step", "Step"),
        (1, "uniform", "params", "Params"),
    ]
    expected = [
        Binding(
            FIRST_OPERAND + index,
            "storage",
            "read_write" if operand.kind == "output" else "read",
            operand.name,
            f"array<{operand.element}>",
        )
        for index, operand in enumerate(row.operands)
    ]
    assert found[FIRST_OPERAND:] == expected


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_params_overrides_and_workgroup_size_agree(row: Signature) -> None:
    text = kernel_text(row.file)
    assert struct_fields(text, "Params") == dict(row.params)
    assert list(struct_fields(text, "Params")) == list(row.params)  # the order is the layout
    assert struct_fields(text, "Step") == {"rows": "u32", "sequences": "u32"}
    assert overrides(text) == dict(row.overrides)
    sizes = {entry: int(size) for size, entry in re.findall(r"@workgroup_size\((\d+)\)\s*fn (\w+)\(", text)}
    assert sizes[row.entry] == row.workgroup_size


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_kernel_stays_within_the_limits_that_webgpu_gives_by_default(row: Signature) -> None:
    assert len(row.operands) <= (10 if row.sections == 8 else 8)  # eight sections, their rows, the output
    assert workgroup_bytes(kernel_text(row.file)) <= 16_384
    assert row.workgroup_size <= 256


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_subgroup_operations_and_the_feature_go_together(row: Signature) -> None:
    text = kernel_text(row.file)
    assert ("subgroup" in row.features) == bool(re.search(r"\bsubgroup[A-Z]\w+\(", text))
    assert (row.subgroup_size is not None) == ("subgroup" in row.features)
    # The native library refuses the line that other implementations ask for.
    assert "enable subgroups" not in text


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_f16_and_the_feature_go_together(row: Signature) -> None:
    """What is no array of f16 needs no feature: words are unpacked, and nothing computes in f16."""
    text = without_aliases(kernel_text(row.file))
    assert ("shader-f16" in row.features) == ("enable f16;" in text)
    assert ("enable f16;" in text) == ("f16>" in text)
    assert not re.search(r"(var|let) \w+: .*f16", text)


@pytest.mark.parametrize("row", [row for row in ROWS if row.for_one], ids=str)
def test_an_entry_for_one_row_is_bound_as_the_one_it_stands_in_for(row: Signature) -> None:
    one = for_one_row(row)
    assert one is not None
    assert one.meaning == row.meaning
    assert one.params == row.params
    assert one.overrides == row.overrides
    assert (one.features, one.multiples, one.sections) == (row.features, row.multiples, row.sections)
    for own, other in zip(one.operands, row.operands, strict=True):
        assert (own.name, own.kind, own.element) == (other.name, other.kind, other.element)
        assert set(other.dtypes) <= set(own.dtypes)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_kernel_says_what_it_computes_and_names_a_meaning(row: Signature) -> None:
    assert kernel_text(row.file).startswith(f"// {row.meaning}: ")
    assert row.meaning in MEANINGS


def test_an_unknown_kernel_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(PlanError, match=r"no kernel rmsnrm.wgsl#main.*rmsnorm.wgsl#main"):
        signature(Kernel("rmsnrm.wgsl", "main", ""))


@pytest.mark.parametrize("groups", [1, MAX_GRID, MAX_GRID + 1, 3 * MAX_GRID + 7, 10**8])
def test_a_grid_covers_its_workgroups_within_the_limit_of_an_axis(groups: int) -> None:
    x, y, z = split_grid(groups)
    assert x * y * z >= groups
    assert max(x, y, z) <= MAX_GRID
    assert x * y * z - groups < y  # less than one surplus workgroup for each line
