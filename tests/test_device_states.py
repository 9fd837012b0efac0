"""Executors that keep states: rings, chunks, batches, groups of steps, states written and copied, against the meanings."""

from dataclasses import replace

import numpy as np
import pytest
from gpu_ops import software_gpu
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_decoder import (
    ADVANCING,
    CHUNK,
    CONTEXT,
    GREEDY,
    HEAD_DIM,
    PLACES,
    VOCABULARY,
    Meanings,
    small_decoder,
    step,
)

from doppler_core.device.executor import Executor, StepTables
from doppler_core.device.limits import check_plan
from doppler_core.device.numpy_executor import NumpyExecutor
from doppler_core.device.wgpu_executor import bind_wgpu
from doppler_core.errors import DeviceLostError, EngineClosedError, InputError, LimitError, PlanError
from doppler_core.plan.op import HOST, Plan, State, ValueType

# Sums of 32 products of numbers near 1, through two layers: a few units in the last place of logits near 30.
CLOSE = {"rtol": 1e-4, "atol": 3e-4}
# Keys and values in f16: one of a thousand may round to the neighbour, 5e-4 of it.
CLOSE_F16 = {"rtol": 1e-3, "atol": 2e-2}


def opened(device: str, kv: ValueType = "f32", embed: str = "gather.wgsl") -> Executor:
    plan, tensors = small_decoder(kv, embed)
    if device == "numpy":
        return NumpyExecutor(plan, tensors, max_rows=16, max_slots=PLACES)
    return bind_wgpu(plan, tensors, software_gpu(), max_rows=16, max_slots=PLACES)


@pytest.fixture(scope="module", params=["numpy", "wgpu"])
def executor(request: pytest.FixtureRequest) -> Executor:
    return opened(request.param)


@pytest.fixture(params=["numpy", "wgpu"])
def fresh(request: pytest.FixtureRequest) -> Executor:
    return opened(request.param)


def meanings(kv: ValueType = "f32") -> Meanings:
    return Meanings(*small_decoder(kv))


def prefilled(executor: Executor) -> np.ndarray:
    """Two sequences begun, at places 2 and 0; the tokens that follow, [2]."""
    return executor.submit("prefill", step([[1, 2, 3], [9, 8]], [0, 0], [2, 0])).result()["sampled"][0, :, 0]


@pytest.mark.parametrize("kv", ["f32", "f16"])
@pytest.mark.parametrize("device", ["numpy", "wgpu"])
def test_a_long_sequence_in_chunks_and_tokens_is_what_the_meanings_say(device: str, kv: ValueType) -> None:
    executor, right = opened(device, kv), meanings(kv)
    close = CLOSE if kv == "f32" else CLOSE_F16
    rng, position = np.random.default_rng(2), 0
    # Past the ring of 11 rows more than three times, in steps of every size up to the chunk.
    for count in (5, 1, 4, 1, 1, 3, 5, 2, 1, 5, 5, 1, 1, 5):
        ids = rng.integers(0, VOCABULARY, count).tolist()
        tables = step([ids], [position], [1])
        phase = "decode" if count == 1 else "prefill"
        found = executor.submit(phase, tables).result()
        np.testing.assert_allclose(found["logits"][0], right.step(phase, tables)["logits"], **close)
        position += count
    assert position == CONTEXT


@st.composite
def schedules(draw: st.DrawFn) -> list[tuple[list[int], list[int]]]:
    """Steps of a few sequences, each of up to a chunk of rows: the places, and the rows of each."""
    steps = []
    for _ in range(draw(st.integers(1, 6))):
        places = draw(st.lists(st.integers(0, PLACES - 1), min_size=1, max_size=PLACES, unique=True))
        lengths = [draw(st.integers(1, min(CHUNK, 16 // len(places)))) for _ in places]
        steps.append((places, lengths))
    return steps


@pytest.mark.parametrize("device", ["numpy", "wgpu"])
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(schedule=schedules(), start=st.integers(0, 10), seed=st.integers(0, 99))
def test_any_mix_of_sequences_is_what_the_meanings_say(
    device: str, schedule: list[tuple[list[int], list[int]]], start: int, seed: int
) -> None:
    executor, right = SHARED.setdefault(device, opened(device)), meanings()
    rng = np.random.default_rng(seed)
    # Sequences that begin past 0 look back on what the states held before.
    for name, values in right.states.items():
        values[:] = rng.standard_normal(values.shape, np.float32)
        executor.write_state(name, 0, values)
    positions = [start] * PLACES
    for places, lengths in schedule:
        ids = [rng.integers(0, VOCABULARY, length).tolist() for length in lengths]
        tables = step(ids, [positions[place] for place in places], places)
        found = executor.submit("prefill", tables).result()["logits"][0]
        np.testing.assert_allclose(found, right.step("prefill", tables)["logits"], **CLOSE)
        for place, length in zip(places, lengths, strict=True):
            positions[place] += length
    for name, values in right.states.items():
        np.testing.assert_allclose(executor.read_state(name, 0, len(values)), values, **CLOSE)


SHARED: dict[str, Executor] = {}


def following(tables: StepTables, sampled: np.ndarray) -> StepTables:
    """The next step of one row a slot."""
    rows = tables.rows.copy()
    rows[:, 0], rows[:, 1] = sampled, rows[:, 1] + 1
    return replace(tables, rows=rows)


@pytest.mark.parametrize("device", ["numpy", "wgpu"])
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_a_group_of_steps_is_as_many_single_steps(device: str, steps: int) -> None:
    grouped, single = opened(device), opened(device)
    first = prefilled(grouped)
    np.testing.assert_array_equal(prefilled(single), first)
    tables = step([[token] for token in first], [3, 2], [2, 0], ADVANCING)
    found = grouped.submit("prefill", tables, steps).result()
    assert found["sampled"].shape == (steps, 2, 1)
    for index in range(steps):
        one = single.submit("prefill", replace(tables, active=GREEDY)).result()
        # The same kernels on the same numbers: not even rounding differs.
        np.testing.assert_array_equal(found["logits"][index], one["logits"][0])
        np.testing.assert_array_equal(found["sampled"][index], one["sampled"][0])
        tables = following(tables, one["sampled"][0, :, 0])
    for name, state in small_decoder()[0].states().items():
        count = int(state.shape[0])
        np.testing.assert_array_equal(grouped.read_state(name, 0, count), single.read_state(name, 0, count))


def test_tickets_can_be_read_late_and_out_of_order(fresh: Executor) -> None:
    right = meanings()
    steps = [step([[token]], [position], [3]) for position, token in enumerate((4, 9, 11, 2))]
    tickets = [fresh.submit("decode", tables) for tables in steps]
    expected = [right.step("decode", tables)["logits"] for tables in steps]
    for index in (2, 0, 3, 1):
        np.testing.assert_allclose(tickets[index].result()["logits"][0], expected[index], **CLOSE)
    np.testing.assert_array_equal(tickets[0].result()["sampled"], tickets[0].result()["sampled"])


def test_tickets_that_nobody_reads_do_no_harm(fresh: Executor) -> None:
    for position in range(20):
        ticket = fresh.submit("decode", step([[position]], [position], [1]))
    assert ticket.result()["sampled"].shape == (1, 1, 1)


def test_only_what_a_step_asks_for_runs_and_comes_back(executor: Executor) -> None:
    tables = step([[1, 2]], [0], [0], frozenset())
    assert set(executor.submit("prefill", tables).result()) == {"logits"}
    assert set(executor.submit("prefill", replace(tables, active=GREEDY)).result()) == {"logits", "sampled"}


def test_without_states_of_its_own_a_slot_sees_nothing_of_others(executor: Executor) -> None:
    alone = step([[5, 6, 7]], [0], [1])
    among = step([[9] * 5, [5, 6, 7], [3]], [0, 0, 0], [0, 1, 3])
    first = executor.submit("prefill", alone).result()["logits"][0, 0]
    np.testing.assert_allclose(executor.submit("prefill", among).result()["logits"][0, 1], first, **CLOSE)


def test_a_copied_state_continues_as_the_one_it_was_copied_from(fresh: Executor) -> None:
    prefilled(fresh)
    for name, state in small_decoder()[0].states().items():
        fresh.copy_state(name, 2 * state.capacity, 1 * state.capacity, state.capacity)
    both = fresh.submit("prefill", step([[17], [17]], [3, 3], [2, 1])).result()["logits"][0]
    np.testing.assert_array_equal(both[0], both[1])


@pytest.mark.parametrize("device", ["numpy", "wgpu"])
@pytest.mark.parametrize("kv", ["f32", "f16"])
def test_what_is_written_into_a_state_can_be_read(device: str, kv: ValueType) -> None:
    executor = opened(device, kv)
    assert not executor.read_state("0.kv", 0, PLACES * CONTEXT).any()
    values = (
        np.random.default_rng(1).standard_normal((3, 2 * HEAD_DIM)).astype({"f32": "f4", "f16": "f2"}[kv])
    )
    executor.write_state("0.kv", 7, values)
    found = executor.read_state("0.kv", 6, 5)
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found[1:4], values)
    assert not found[[0, 4]].any()


def test_states_keep_their_order_with_steps(fresh: Executor) -> None:
    tables = step([[4]], [0], [0])
    first = fresh.submit("decode", tables)
    fresh.write_state("0.kv", 0, np.zeros((1, 2 * HEAD_DIM), np.float32))
    assert not fresh.read_state("0.kv", 0, 1).any()
    second = fresh.submit("decode", tables)
    np.testing.assert_array_equal(first.result()["logits"], second.result()["logits"])
    assert fresh.read_state("0.kv", 0, 1).any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e: e.read_state("1.kv", 40, 5), "rows 40 to 45 of state '1.kv': it has 44"),
        (lambda e: e.read_state("kv", 0, 1), r"no state is called 'kv'; there are 0.kv, 1.kv"),
        (lambda e: e.copy_state("0.kv", 0, 3, 4), "4 rows from 0 and from 3 on overlap"),
        (lambda e: e.copy_state("0.kv", 0, 159, 2), "rows 159 to 161"),
        (lambda e: e.write_state("0.kv", 0, np.zeros((1, 15), np.float32)), r"f32 rows of 16 values, not float32 of shape \(1, 15\)"),
        (lambda e: e.write_state("0.kv", 0, np.zeros((1, 16), np.float16)), "not float16"),
        (lambda e: e.submit("decode", step([[1]], [CONTEXT], [0])), "position 40: expected less than 40"),
        (lambda e: e.submit("decode", step([[1]], [0], [PLACES])), "place 4 of the states: expected less than 4"),
        (lambda e: e.submit("prefill", step([[1] * 7], [0], [0])), "the states' rings leave room for 6"),
        (lambda e: e.submit("decode", step([[1]], [0], [0]), 2), "puts the sampled token into the next one's rows"),
        (lambda e: e.submit("decode", step([[1]], [0], [0], frozenset({"x"}))), r"no ops for \['x'\]"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(executor: Executor, call: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(executor)  # type: ignore[operator]


@pytest.mark.parametrize("device", ["numpy", "wgpu"])
def test_what_the_host_gathers_is_what_the_device_would(device: str) -> None:
    on_host, on_device = opened(device, embed=HOST), opened(device)
    tables = step([[3, 1, 4], [1, 5]], [0, 0], [0, 3])
    for phase, each in (("prefill", tables), ("decode", step([[9]], [3], [0]))):
        expected = on_device.submit(phase, each).result()["logits"]
        np.testing.assert_array_equal(on_host.submit(phase, each).result()["logits"], expected)
    with pytest.raises(InputError, match="the host computes needs steps=1"):
        on_host.submit("decode", step([[1]], [4], [0], ADVANCING), 2)
    if device == "wgpu":
        assert on_device.memory_bytes - on_host.memory_bytes >= 4 * VOCABULARY * 32


def test_capture_steps_as_submit_does(fresh: Executor) -> None:
    right, tables = meanings(), step([[3, 1, 4]], [0], [1])
    values = right.step("prefill", tables)
    names = ["x", "1.mixed", "logits", "sampled"]
    found = fresh.capture("prefill", tables.rows, tables.slots, names, active=GREEDY)
    for name in names:
        np.testing.assert_allclose(found[name], values[name], **CLOSE)
    after = step([[5]], [3], [1])
    again = fresh.submit("decode", after).result()["logits"][0]
    np.testing.assert_allclose(again, right.step("decode", after)["logits"], **CLOSE)


def test_states_count_as_memory(executor: Executor) -> None:
    states = sum(state.bytes(0, 0) for state in small_decoder()[0].states().values())
    assert executor.memory_bytes > states


@pytest.mark.parametrize("device", ["numpy", "wgpu"])
def test_a_closed_executor_gives_no_results(device: str) -> None:
    plan, tensors = small_decoder()
    if device == "numpy":
        executor: Executor = NumpyExecutor(plan, tensors, max_rows=4, max_slots=1)
    else:
        from doppler_core.device.adapters import choose_adapter
        from doppler_core.device.wgpu_executor import open_wgpu

        executor = open_wgpu(plan, tensors, choose_adapter("wgpu:llvmpipe"), max_rows=4, max_slots=1)
    unread = executor.submit("decode", step([[1]], [0], [0]))
    executor.close()
    executor.close()
    if device == "wgpu":
        with pytest.raises(DeviceLostError, match="open it again"):
            unread.result()
    for call in (
        lambda: executor.submit("decode", step([[1]], [1], [0])),
        lambda: executor.read_state("0.kv", 0, 1),
        lambda: executor.copy_state("0.kv", 0, 1, 1),
    ):
        with pytest.raises((DeviceLostError, EngineClosedError), match="open"):
            call()


def test_a_state_past_the_limits_names_the_remedy() -> None:
    ability = replace(software_gpu().ability, max_binding=4000)
    plan, _ = small_decoder("f32")
    message = (
        "state '0.kv' needs 10,240 bytes in one binding for 4 slots of 40 rows.*lower context_length or slots"
    )
    with pytest.raises(LimitError, match=message):
        check_plan(plan, ability, 4, 1)


def test_a_state_whose_rows_are_no_whole_words_is_refused() -> None:
    plan, _ = small_decoder()
    odd = State("odd", (4, 3), "f16")
    first, *rest = plan.phases["decode"]
    broken = Plan(
        "odd", {"decode": (replace(first, inputs=(odd,)), *rest)}, {"decode": plan.outputs["decode"]}
    )
    with pytest.raises(PlanError, match="state 'odd': a row of 3 f16 values is no whole words"):
        check_plan(broken, software_gpu().ability, 4, 1)
