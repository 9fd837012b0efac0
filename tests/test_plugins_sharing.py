"""One engine per key, closed with its last lease; handles that open late and copy for nothing."""

import copy
import gc
import os
import pickle
import threading
import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from doppler_core.engine.engine import Engine
from doppler_plugins import EngineHandle, EngineSettings, sharing
from doppler_plugins.sharing import open_count, share


class Fake:
    """Stands for an engine: counts closings, and leases as the real one does."""

    def __init__(self) -> None:
        self.closed = False
        self.closings = 0

    def lease(self, released: Callable[[], None]) -> "Lease":
        return Lease(self, released)

    def close(self) -> None:
        self.closings += 1
        self.closed = True


class Lease:
    """A share of a Fake."""

    def __init__(self, owner: Fake, released: Callable[[], None]) -> None:
        import weakref

        self.owner = owner
        self._close = weakref.finalize(self, released)

    def close(self) -> None:
        self._close()

    @property
    def closed(self) -> bool:
        return not self._close.alive


def opener(made: list[Fake], seconds: float = 0.0) -> Callable[[], Engine]:
    def open_one() -> Engine:
        time.sleep(seconds)
        made.append(Fake())
        return cast(Engine, made[-1])

    return open_one


def lease(key: str, made: list[Fake], seconds: float = 0.0) -> Lease:
    return cast(Lease, share(key, opener(made, seconds)))


def test_the_last_lease_closes_the_engine_and_the_next_one_opens_another() -> None:
    made: list[Fake] = []
    first, second = lease("a", made), lease("a", made)
    assert first.owner is second.owner
    first.close()
    first.close()
    assert not made[0].closed
    second.close()
    assert made[0].closings == 1
    third = lease("a", made)
    assert len(made) == 2
    third.close()
    assert open_count() == 0


def test_different_keys_have_different_engines() -> None:
    made: list[Fake] = []
    one, two = lease("a", made), lease("b", made)
    assert len(made) == open_count() == 2
    one.close()
    assert [fake.closed for fake in made] == [True, False]
    two.close()


def test_a_lease_that_is_dropped_counts_as_closed() -> None:
    made: list[Fake] = []
    dropped = lease("a", made)
    del dropped
    gc.collect()
    assert made[0].closed
    assert open_count() == 0


def test_sixteen_threads_open_once_and_close_once() -> None:
    made: list[Fake] = []
    leases: list[Lease] = []
    start = threading.Barrier(16)

    def ask() -> None:
        start.wait()
        leases.append(lease("a", made, seconds=0.05))

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    closers = [threading.Thread(target=one.close) for one in leases]
    for thread in closers:
        thread.start()
    for thread in closers:
        thread.join()
    assert made[0].closings == 1
    assert open_count() == 0


def test_opening_and_closing_at_once_never_gives_a_closed_engine() -> None:
    made: list[Fake] = []
    wrong: list[Fake] = []

    def churn() -> None:
        for _ in range(200):
            one = lease("a", made)
            if one.owner.closed:
                wrong.append(one.owner)
            one.close()

    threads = [threading.Thread(target=churn) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert all(fake.closings == 1 for fake in made)
    assert open_count() == 0


def test_a_failed_opening_is_raised_and_tried_again() -> None:
    def fail() -> Engine:
        raise OSError("no such device")

    with pytest.raises(OSError, match="no such device"):
        share("a", fail)
    assert open_count() == 0
    made: list[Fake] = []
    lease("a", made).close()
    assert len(made) == 1


def test_a_slow_opening_does_not_hold_up_another_model() -> None:
    made: list[Fake] = []
    slow = threading.Thread(target=lambda: lease("slow", made, seconds=1.0))
    slow.start()
    time.sleep(0.05)
    begin = time.monotonic()
    lease("quick", made).close()
    # The slow one holds its own lock for a second; half of that is far more than a dictionary look-up takes.
    assert time.monotonic() - begin < 0.5
    slow.join()
    gc.collect()


def test_a_forked_child_starts_with_nothing_open_and_closes_nothing_of_its_parent() -> None:
    made: list[Fake] = []
    held = lease("a", made)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        held.close()
        os.write(write, f"{open_count()} {made[0].closings}".encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    assert os.read(read, 100) == b"0 0"
    os.close(read)
    assert open_count() == 1
    held.close()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Fake]:
    """The engines that handles open; nothing real is."""
    made: list[Fake] = []

    def open_engine(model: str, settings: EngineSettings, progress: object) -> Engine:
        return share((model, settings), opener(made, 0.01))

    monkeypatch.setattr("doppler_plugins.opening.open_engine", open_engine)
    return made


def test_a_handle_opens_nothing_until_asked_and_once_then(opened: list[Fake]) -> None:
    handle = EngineHandle("some/model", EngineSettings(device="numpy"))
    assert (opened, handle.is_open) == ([], False)
    assert handle.engine() is handle.engine()
    assert (len(opened), handle.is_open) == (1, True)
    handle.close()
    assert (opened[0].closings, handle.is_open) == (1, False)
    handle.close()
    assert not cast(Any, handle.engine()).closed
    assert len(opened) == 2
    handle.close()


def test_copies_of_a_handle_are_the_handle_and_pickles_are_equal_to_it(opened: list[Fake]) -> None:
    handle = EngineHandle("some/model", EngineSettings(memory_limit=5))
    handle.engine()
    assert copy.copy(handle) is copy.deepcopy(handle) is handle
    again = pickle.loads(pickle.dumps(handle))
    assert again == handle
    assert hash(again) == hash(handle)
    assert not again.is_open
    assert again != EngineHandle("some/model")
    assert cast(Any, again.engine()).owner is opened[0]
    again.close()
    handle.close()


def test_eight_threads_with_one_handle_share_one_lease(opened: list[Fake]) -> None:
    handle = EngineHandle("some/model")
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(handle.engine())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(engine) for engine in found}) == 1
    found.clear()
    handle.close()
    assert opened[0].closings == 1


def test_a_handle_that_is_dropped_closes_its_engine(opened: list[Fake]) -> None:
    handle = EngineHandle("some/model")
    handle.engine()
    del handle
    gc.collect()
    assert opened[0].closed
    assert sharing.open_count() == 0
