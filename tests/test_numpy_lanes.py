"""A step run in lanes gives what it gives whole: how lanes are dealt, where they write, who owns the threads."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from steps import tables

from doppler_core.device import numpy_lanes
from doppler_core.device.numpy_buffers import Buffers, aligned
from doppler_core.device.numpy_crew import Crew
from doppler_core.device.numpy_executor import NumpyExecutor
from doppler_core.device.numpy_lanes import LEAST_ROWS, UNEVEN, Lane, join, lanes
from doppler_core.device.threads import blas_controller, one_blas_thread
from doppler_core.manifest.load import load_manifest
from doppler_core.plan.op import Value
from doppler_core.plan.operands import Tables
from doppler_core.plan.room import Room
from doppler_core.weights.artifact import open_artifact
from doppler_plugins.conversion import model_type_of

LENGTHS = st.lists(st.integers(1, 300), min_size=1, max_size=30)


def step(lengths: list[int]) -> Tables:
    """Each row has an id of its own, each slot a line of its own."""
    number = itertools.count(1000)
    rows, slots = tables([[next(number) for _ in range(length)] for length in lengths], 8)
    return Tables(rows, slots, np.arange(16 * len(slots), dtype=np.uint32).reshape(-1, 16))


@given(LENGTHS, st.integers(1, 4))
def test_lanes_hold_every_sequence_once_as_a_step_of_its_own(lengths: list[int], threads: int) -> None:
    whole = step(lengths)
    split = lanes(whole, threads)
    assert len(split) in (1, threads)
    assert sorted(np.concatenate([lane.slots for lane in split]).tolist()) == list(range(len(lengths)))
    assert [lane.first for lane in split] == [0, *np.cumsum([len(lane.rows) for lane in split])[:-1].tolist()]
    for lane in split:
        rows, slots = lane.tables.rows, lane.tables.slots
        assert (rows[:, :2] == whole.rows[lane.rows, :2]).all()
        assert (slots[:, 1:] == whole.slots[lane.slots, 1:]).all()
        assert lane.tables.sampling is not None
        assert (lane.tables.sampling == whole.sampling[lane.slots]).all()  # type: ignore[index]
        for slot, (first, count, *_) in enumerate(slots.tolist()):
            assert np.flatnonzero(rows[:, 2] == slot).tolist() == list(range(first, first + count))
            assert rows[first, 0] == whole.rows[whole.slots[lane.slots[slot], 0], 0]
    ids = join([lane.tables.rows[:, :1].astype(np.float32) for lane in split], [lane.rows for lane in split])
    assert (ids == whole.rows[:, :1]).all()


@given(LENGTHS, st.integers(2, 4))
def test_lanes_are_even_and_worth_their_weights(lengths: list[int], threads: int) -> None:
    sizes = [len(lane.rows) for lane in lanes(step(lengths), threads)]
    assert len(sizes) == 1 or min(sizes) >= LEAST_ROWS
    assert len(sizes) == 1 or max(sizes) <= UNEVEN * sum(lengths) / threads


@pytest.mark.parametrize(
    ("lengths", "count"),
    [([LEAST_ROWS, LEAST_ROWS], 2), ([LEAST_ROWS, LEAST_ROWS - 1], 1), ([1000], 1), ([300, 100], 1), ([1] * 256, 2)],
)  # fmt: skip
def test_one_lane_runs_everything_where_several_would_wait(lengths: list[int], count: int) -> None:
    assert len(lanes(step(lengths), 2)) == count


@given(LENGTHS, st.lists(st.sampled_from([4, 8, 12]), min_size=2, max_size=2), st.integers(1, 2000))
def test_no_lane_writes_where_another_does_whatever_the_values(
    lengths: list[int], columns: list[int], spare: int
) -> None:
    split = lanes(step(lengths), 2)
    rows = sum(lengths) + spare
    place = {"wide": 0, "narrow": 0, "pooled": 0}
    buffers = Buffers([aligned(max(rows * max(columns), 96 * len(lengths)))], place, rows)
    values = [
        Value("wide", ("T", columns[0])),
        Value("narrow", ("T", columns[1])),
        Value("pooled", ("S", 96)),
    ]
    for mine, other in itertools.product(values, values):
        arrays = [buffers.array(value, lane) for value, lane in zip((mine, other), split, strict=False)]
        assert arrays[0].shape == (
            len(split[0].rows if mine.shape[0] == "T" else split[0].slots),
            mine.columns,
        )
        assert len(arrays) == 1 or not np.may_share_memory(arrays[0], arrays[1])


def test_a_step_of_more_rows_than_the_buffers_is_refused() -> None:
    lane = Lane(step([9]), np.arange(9), np.arange(1), 0, True)
    with pytest.raises(ValueError, match="reshape"):
        Buffers([aligned(32)], {"x": 0}, 8).array(Value("x", ("T", 4)), lane)


@pytest.fixture
def executor(tiny_artifact: Path) -> Iterator[NumpyExecutor]:
    artifact = open_artifact(tiny_artifact)
    manifest = load_manifest(artifact.manifest)
    plan = model_type_of(manifest).lower(manifest, artifact.tensors, Room(256, 8, 256))
    made = NumpyExecutor(plan, artifact.tensors, max_rows=256, max_slots=8)
    yield made
    made.close()


# 1-row texts beside a long one: their dense layers are wider than their share of any buffer.
@pytest.mark.parametrize("lengths", [[31, 7, 30, 2], [40, 1, 1, 1, 1, 1, 1]])
@pytest.mark.parametrize("threads", [2, 3])
def test_a_phase_in_lanes_gives_what_it_gives_whole(
    executor: NumpyExecutor, monkeypatch: pytest.MonkeyPatch, lengths: list[int], threads: int
) -> None:
    draw = np.random.default_rng(0)
    rows, slots = tables([draw.integers(0, 50, length).tolist() for length in lengths], 64)
    names = [
        "embed",
        "layers.1.attn_residual",
        "final_norm",
        "pool",
        executor._plan.outputs["encode"][0].name,
    ]
    found = []
    for count in (1, threads):
        monkeypatch.setattr(executor, "_crew", Crew(count, "test"))
        monkeypatch.setattr(numpy_lanes, "LEAST_ROWS", 1)
        monkeypatch.setattr(numpy_lanes, "UNEVEN", threads)
        found.append((executor.capture("encode", rows, slots, names), executor.run("encode", rows, slots)))
    for name in names:
        # Products of other shapes may sum in another order.
        np.testing.assert_allclose(found[1][0][name], found[0][0][name], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-4, atol=1e-5)


def threads_of_blas() -> list[int]:
    return [pool["num_threads"] for pool in blas_controller().info()]


def test_blas_gets_its_threads_back_when_the_last_user_has_left() -> None:
    before = threads_of_blas()
    first, second = one_blas_thread(), one_blas_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert threads_of_blas() == [1] * len(before)
    second.__exit__(None, None, None)
    assert threads_of_blas() == before


def test_a_buffer_starts_with_a_cache_line() -> None:
    assert all(aligned(count).ctypes.data % 64 == 0 for count in (1, 16, 1000, 1_000_000))
    assert aligned(1000).shape == (1000,)
