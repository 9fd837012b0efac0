"""Both attention kernels on the software GPU adapter against the meaning: windows, slots, head sizes, soft cap."""

import numpy as np
import pytest
from gpu_ops import Case, packed_step

# Scores are f32 sums of head_dim products, and the driver's exp is right to 4e-6 relative; weights sum to 1.
TOLERANCE = 1e-5

KERNELS = ["attention_small.wgsl", "attention_broadcast.wgsl"]


def case(
    kernel: str,
    lengths: list[int],
    heads: int = 3,
    kv_heads: int = 1,
    head_dim: int = 32,
    window: int = 0,
    causal: bool = False,
    softcap: float = 0.0,
    start: int = 0,
    spread: float = 1.0,
) -> Case:
    rng = np.random.default_rng(sum(lengths) + head_dim)
    widths = (heads * head_dim, kv_heads * head_dim, kv_heads * head_dim)
    return Case(
        "attention",
        f"{kernel}#main",
        {
            "heads": heads,
            "kv_heads": kv_heads,
            "head_dim": head_dim,
            "scale": head_dim**-0.5,
            "window": window,
            "causal": causal,
            "softcap": softcap,
        },
        packed_step(lengths, start),
        inputs=[
            np.float32(spread) * rng.standard_normal((sum(lengths), width), np.float32) for width in widths
        ],
        columns=widths[0],
    )


def assert_close(one: Case, tolerance: float = TOLERANCE) -> None:
    found, expected = one.run(), one.expected()
    assert np.isfinite(found).all()
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("rows", [1, 3, 17, 65, 193])
def test_one_sequence_of_any_length(kernel: str, rows: int) -> None:
    assert_close(case(kernel, [rows]))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("window", "causal"), [(0, False), (8, False), (7, False), (0, True), (8, True), (1, True)]
)
def test_sequences_of_unequal_length_see_their_own_window_only(
    kernel: str, window: int, causal: bool
) -> None:
    assert_close(case(kernel, [5, 1, 40, 3, 100, 2, 2, 31], window=window, causal=causal))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), [(3, 1, 256), (4, 2, 64), (2, 2, 96), (4, 4, 32)])
def test_head_sizes_and_groups(kernel: str, heads: int, kv_heads: int, head_dim: int) -> None:
    assert_close(case(kernel, [33, 20], heads, kv_heads, head_dim, window=16))


@pytest.mark.parametrize("head_dim", [2, 16, 18, 100])
def test_the_plain_kernel_takes_any_even_head_size(head_dim: int) -> None:
    assert_close(case("attention_small.wgsl", [33, 20], 2, 1, head_dim))


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_soft_cap_bounds_scores(kernel: str) -> None:
    one = case(kernel, [50], softcap=2.0, spread=3.0)
    assert_close(one)
    uncapped = case(kernel, [50], spread=3.0)
    assert np.abs(one.run() - uncapped.run()).max() > 0.1


@pytest.mark.parametrize("kernel", KERNELS)
def test_positions_need_not_begin_at_zero(kernel: str) -> None:
    assert_close(case(kernel, [40, 30], window=12, start=1000))


@pytest.mark.parametrize("kernel", KERNELS)
def test_large_scores_do_not_overflow(kernel: str) -> None:
    # Scores of some thousands: exp overflows unless the largest is subtracted first. Their own rounding, 2^-24 of
    # thousands, shows in the weights: hence the wider tolerance.
    assert_close(case(kernel, [70], spread=40.0), 2e-3)


@pytest.mark.parametrize("kernel", KERNELS)
def test_tiles_of_keys_out_of_every_window_are_skipped(kernel: str) -> None:
    """Shown by values that would spoil every sum, even with a weight of 0."""
    one = case(kernel, [400], window=8)
    value = one.inputs[2]
    expected = one.expected()
    value[100:300] = np.nan
    found = one.run()
    np.testing.assert_allclose(found[:32], expected[:32], atol=1e-5)
    np.testing.assert_allclose(found[-16:], expected[-16:], atol=1e-5)
