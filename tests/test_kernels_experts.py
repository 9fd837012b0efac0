"""The kernels of a mixture of experts on the software GPU adapter against their meaning: routes, products, sums."""

from dataclasses import replace

import numpy as np
import pytest
from gpu_ops import Case, Kept, packed_step, software_gpu

from doppler_core.device.limits import sections
from doppler_core.plan.expert_meaning import pairs, unpaired
from doppler_core.plan.kernels import SIGNATURES
from doppler_core.plan.op import Weight
from doppler_core.weights.tensor import StorageType, row_bytes

# As in test_kernels_matmul: f32 sums of up to 2,112 products in another order than BLAS.
TOLERANCE = 4e-6
# Of a route's weight: exp is off by up to 4e-6 on this device, a sum by less.
ROUTE_TOLERANCE = 1e-5

PRODUCTS: list[tuple[str, StorageType]] = [
    ("expert_matmul.wgsl", "f32"),
    ("expert_matmul.wgsl", "f16"),
    ("expert_matmul_q4_k.wgsl", "q4_k"),
]


def scores_of(kind: str, rows: int, experts: int) -> np.ndarray:
    rng = np.random.default_rng(rows + experts)
    if kind == "tied":
        return rng.integers(-2, 3, (rows, experts)).astype(np.float32)
    if kind == "all equal":
        return np.zeros((rows, experts), np.float32)
    spread = 300 if kind == "far apart" else 2  # e^-300 is 0 in f32
    return (spread * rng.standard_normal((rows, experts))).astype(np.float32)


def routing(
    scores: np.ndarray, chosen: int, normalize: bool, scale: StorageType | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Experts and weights as the kernel finds them, and as the meaning does."""
    rows, experts = scores.shape
    case = Case(
        "route",
        "route.wgsl#main",
        {"columns": experts, "chosen": chosen, "normalize": normalize},
        packed_step([rows]),
        inputs=[scores],
        weights=[np.random.default_rng(5).random(experts, np.float32) + 0.5] if scale else [],
        weight_types=[(scale, scale)] if scale else [],
        columns=2 * chosen,
        dtype="u32",
    )
    return (*unpaired(case.run()), *unpaired(case.expected()))


@pytest.mark.parametrize("kind", ["spread", "tied", "all equal", "far apart"])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize(
    ("rows", "experts", "chosen"),
    [(1, 128, 8), (257, 128, 8), (3, 1, 1), (5, 7, 7), (2, 300, 5), (4, 16, 1)],
)
def test_rows_are_routed_to_the_experts_of_greatest_score(
    rows: int, experts: int, chosen: int, normalize: bool, kind: str
) -> None:
    found, weights, expected, meant = routing(scores_of(kind, rows, experts), chosen, normalize)
    np.testing.assert_array_equal(found, expected)
    # A device may take what is below the smallest normal number for 0.
    np.testing.assert_allclose(weights, meant, rtol=ROUTE_TOLERANCE, atol=2.0**-126)


@pytest.mark.parametrize("scale", ["f32", "f16"])
def test_an_expert_may_have_a_factor_of_its_own(scale: StorageType) -> None:
    found, weights, expected, meant = routing(scores_of("spread", 9, 33), 4, True, scale)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(weights, meant, rtol=ROUTE_TOLERANCE)


def test_a_score_that_is_no_number_spoils_its_row_and_no_other() -> None:
    scores = scores_of("spread", 4, 20)
    scores[1, 7] = np.nan
    scores[2] = np.nan
    found, weights, expected, meant = routing(scores, 3, True)
    assert np.isnan(weights[1:3]).all()
    # Whatever they are routed to, it is there, and once.
    assert all(len(set(row)) == 3 and max(row) < 20 for row in found.tolist())
    np.testing.assert_array_equal(found[[0, 3]], expected[[0, 3]])
    np.testing.assert_allclose(weights[[0, 3]], meant[[0, 3]], rtol=ROUTE_TOLERANCE)


def drawn(rows: int, experts: int, chosen: int) -> np.ndarray:
    """For each row some experts, no one twice."""
    rng = np.random.default_rng(rows)
    return np.argsort(rng.random((rows, experts)), 1)[:, :chosen]


def product(
    kernel: str,
    dtype: StorageType,
    wanted: np.ndarray,
    experts: int,
    columns: int,
    inner: int,
    parts: int = 1,
    own_inputs: bool = False,
) -> Case:
    """wanted: each row's experts, [R, chosen]."""
    rows, chosen = wanted.shape
    rng = np.random.default_rng(rows + columns + inner)
    params = {"columns": columns, "inner": inner, "experts": experts, "chosen": chosen}
    return Case(
        "expert_matmul",
        kernel if "#" in kernel else f"{kernel}#main",
        {**params, "parts": parts, "own_inputs": own_inputs},
        packed_step([rows]),
        inputs=[rng.standard_normal((rows, inner * (chosen if own_inputs else 1)), np.float32)],
        states=[Kept(pairs(wanted, rng.random(wanted.shape, np.float32)), "u32")],
        weights=[rng.standard_normal((experts, columns, inner), np.float32) / np.float32(np.sqrt(inner))],
        weight_types=[(dtype, dtype)],
        columns=chosen * columns,
    )


def assert_right(case: Case) -> None:
    found, expected = case.run(), case.expected()
    assert np.isfinite(found).all()
    assert np.abs(found - expected).max() <= TOLERANCE * np.abs(expected).max()


@pytest.mark.parametrize(("kernel", "dtype"), PRODUCTS)
@pytest.mark.parametrize(
    # 704 and 2,112 are as many values as Gemma's experts and its dense branch have, and no whole blocks of Q4_K.
    ("rows", "experts", "chosen", "columns", "inner"),
    [
        (1, 4, 2, 70, 96),
        (2, 3, 1, 1, 16),
        (257, 5, 2, 65, 32),
        (9, 8, 8, 130, 704),
        (17, 2, 2, 64, 2112),
        (40, 3, 2, 66, 272),
    ],
)
def test_products_with_the_experts_of_each_row(
    kernel: str, dtype: StorageType, rows: int, experts: int, chosen: int, columns: int, inner: int
) -> None:
    assert_right(product(kernel, dtype, drawn(rows, experts, chosen), experts, columns, inner))


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("rows", [1, 6])
@pytest.mark.parametrize("inner", [4, 36, 60])
def test_dense_experts_take_any_four_values(rows: int, dtype: StorageType, inner: int) -> None:
    case = product("expert_matmul.wgsl", dtype, drawn(rows, 3, 2), 3, 10, inner, own_inputs=True)
    # The values behind a row are its neighbour's: none of them may come in.
    case.inputs[0][:, inner:] = np.nan
    found, expected = (each.reshape(rows, 2, 10) for each in (case.run(), case.expected()))
    np.testing.assert_allclose(
        found[:, 0], expected[:, 0], rtol=0, atol=TOLERANCE * np.abs(expected[:, 0]).max()
    )


@pytest.mark.parametrize(("kernel", "dtype"), PRODUCTS)
@pytest.mark.parametrize("rows", [1, 19])
@pytest.mark.parametrize(("parts", "own_inputs"), [(2, False), (1, True), (2, True)])
def test_inputs_and_outputs_of_routes_lie_as_the_op_says(
    kernel: str, dtype: StorageType, rows: int, parts: int, own_inputs: bool
) -> None:
    assert_right(product(kernel, dtype, drawn(rows, 6, 3), 6, 140, 96, parts, own_inputs))


@pytest.mark.parametrize(("kernel", "dtype"), PRODUCTS)
def test_one_expert_may_take_all_rows_and_the_others_none(kernel: str, dtype: StorageType) -> None:
    assert_right(product(kernel, dtype, np.full((70, 1), 2), 4, 33, 64))


def test_more_rows_than_a_workgroup_lists() -> None:
    assert_right(product("expert_matmul.wgsl", "f32", drawn(2100, 2, 1), 2, 5, 16))


@pytest.mark.parametrize(("kernel", "dtype"), PRODUCTS)
def test_what_a_row_gives_does_not_depend_on_its_mates(kernel: str, dtype: StorageType) -> None:
    whole = product(kernel, dtype, drawn(40, 3, 2), 3, 70, 96)
    some = [31, 4]
    fewer = replace(
        whole,
        tables=packed_step([2]),
        inputs=[whole.inputs[0][some]],
        states=[Kept(whole.states[0].values[some], "u32")],
    )
    np.testing.assert_array_equal(fewer.run(), whole.run()[some])


@pytest.mark.parametrize(("kernel", "dtype"), PRODUCTS)
def test_one_row_is_made_by_the_entry_for_one_row(kernel: str, dtype: StorageType) -> None:
    one = product(kernel, dtype, drawn(1, 4, 2), 4, 70, 288)
    np.testing.assert_array_equal(one.run(), replace(one, kernel=f"{kernel}#main_one").run())
    several = product(f"{kernel}#main_one", dtype, drawn(3, 4, 2), 4, 70, 288)
    assert_right(several)


@pytest.mark.parametrize(("kernel", "dtype"), PRODUCTS)
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize(
    # Sections that end inside an expert and inside its tile, and sections of several experts.
    "section_rows",
    [50, 170, 256],
)
def test_experts_above_the_binding_limit_are_cut_anywhere(
    kernel: str, dtype: StorageType, rows: int, section_rows: int
) -> None:
    case = product(kernel, dtype, drawn(rows, 4, 2), 4, 150, 256, parts=2)
    small = replace(software_gpu(), max_binding=section_rows * row_bytes(dtype, 256))
    cut = sections(Weight("w0", (4, 150, 256), dtype, dtype), small.max_binding)
    assert len(cut) == -(-600 // section_rows)
    found, expected = case.run(small), case.expected()
    assert np.abs(found - expected).max() <= TOLERANCE * np.abs(expected).max()


def test_a_dispatch_on_a_section_has_workgroups_for_its_own_experts_only() -> None:
    row = SIGNATURES["expert_matmul_q4_k.wgsl", "main"]
    whole = {"columns": 1408, "inner": 2816, "chosen": 8, "first_row": 0, "row_count": 128 * 1408}
    assert row.groups(256, 1, whole) == 128 * 22
    assert row.groups(1025, 1, whole) == 2 * 128 * 22
    # Lines 1,024 to 3,071 are the last of expert 0, all of expert 1, the first of expert 2.
    assert row.groups(256, 1, {**whole, "first_row": 1024, "row_count": 2048}) == 3 * 22
    assert row.groups(256, 1, {**whole, "first_row": 1408, "row_count": 1408}) == 22


def test_one_expert_for_all_of_the_most_rows_stays_below_the_loop_cap_of_software_devices() -> None:
    sizes = {"columns": 1408, "inner": 2816, "chosen": 8, "first_row": 0, "row_count": 128 * 1408}
    assert SIGNATURES["expert_matmul_q4_k.wgsl", "main"].iterations(sizes, 10**6) < 65_535


@pytest.mark.parametrize(("rows", "columns", "chosen"), [(1, 1, 1), (257, 33, 8), (3, 1030, 2)])
def test_the_outputs_of_routes_are_added_by_weight(rows: int, columns: int, chosen: int) -> None:
    rng = np.random.default_rng(rows)
    case = Case(
        "expert_sum",
        "expert_sum.wgsl#main",
        {"columns": columns, "chosen": chosen},
        packed_step([rows]),
        inputs=[rng.standard_normal((rows, chosen * columns), np.float32)],
        states=[Kept(pairs(drawn(rows, 16, chosen), rng.random((rows, chosen), np.float32)), "u32")],
        columns=columns,
    )
    # Sums of eight products, which a device may fuse.
    np.testing.assert_allclose(case.run(), case.expected(), rtol=0, atol=1e-6)
