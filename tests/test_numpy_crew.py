"""Threads that share work: everything once, in any number of threads; errors; an end."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doppler_core.device.numpy_crew import Crew


@pytest.fixture(scope="module")
def crew() -> Crew:
    return Crew(3, "test crew")


@given(items=st.lists(st.integers(), max_size=20))
def test_work_is_done_once_for_each_item_and_comes_back_in_order(crew: Crew, items: list[int]) -> None:
    done: list[int] = []

    def work(item: int) -> int:
        done.append(item)
        return item * 2

    assert crew.run(work, items) == [item * 2 for item in items]
    assert sorted(done) == sorted(items)


def test_the_threads_work_side_by_side(crew: Crew) -> None:
    # Each waits for the others: work in turn would wait for ever.
    together = threading.Barrier(3, timeout=30)
    names = crew.run(lambda item: (together.wait(), threading.current_thread().name)[1], [0, 1, 2])
    assert sorted(names) == sorted([threading.current_thread().name, "test crew 1", "test crew 2"])


def test_a_thread_that_is_busy_holds_up_nobody() -> None:
    crew, free = Crew(2, "busy crew"), threading.Event()
    crew._jobs[0].put(lambda: free.wait(30))
    assert crew.run(abs, [-1, -2, -3]) == [1, 2, 3]
    free.set()
    crew.close()


def test_an_error_is_raised_when_all_have_ended(crew: Crew) -> None:
    ended = threading.Event()

    def run(item: str) -> None:
        if item == "fails":
            raise MemoryError("no room")
        threading.Event().wait(0.05)
        ended.set()

    with pytest.raises(MemoryError, match="no room"):
        crew.run(run, ["fails", "ends"])
    assert ended.is_set()
    assert crew.run(abs, [-1, -2]) == [1, 2]


def test_a_closed_crew_has_no_threads_and_still_gets_work_done() -> None:
    before = threading.active_count()
    crew = Crew(4, "closing crew")
    assert threading.active_count() == before + 3
    crew.close()
    crew.close()
    assert threading.active_count() == before
    assert crew.run(abs, [-1, -2]) == [1, 2]
