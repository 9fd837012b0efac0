"""Packing of sequences into steps, over a large space of requests."""

from hypothesis import given
from hypothesis import strategies as st

from doppler_core.engine.packing import pack

REQUESTS = st.lists(st.lists(st.integers(1, 50), max_size=12), max_size=6)


@given(REQUESTS, st.integers(50, 200), st.integers(1, 10))
def test_repeated_packing_runs_every_sequence_once_and_in_order(
    requests: list[list[int]], max_rows: int, max_slots: int
) -> None:
    following = [0] * len(requests)
    while any(first < len(lengths) for first, lengths in zip(following, requests, strict=True)):
        packing = pack(list(zip(requests, following, strict=True)), max_rows, max_slots)
        assert 0 < len(packing) <= max_slots
        assert sum(requests[number][index] for number, index in packing) <= max_rows
        for number, index in packing:
            assert index == following[number]
            following[number] += 1


def test_a_small_request_shares_the_first_step_of_a_large_one() -> None:
    packing = pack([([10] * 100, 0), ([10], 0)], 50, 64)
    assert (1, 0) in packing


def test_a_sequence_that_does_not_fit_is_not_overtaken_by_its_own_request() -> None:
    assert pack([([30, 30, 1], 0)], 50, 64) == [(0, 0)]
