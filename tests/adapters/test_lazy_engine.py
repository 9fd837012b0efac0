"""An engine that opens late, for everybody at once, and goes when it is idle or closed."""

import asyncio
import copy
import pickle
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from doppler_core.engine.request import EmbedRequest
from doppler_core.errors import EngineClosedError, ModelNotFoundError, SettingsError
from doppler_core.settings import EngineSettings
from doppler_plugins.adapters.lazy_engine import LazyEngine
from tests.adapters.scripted import Scripted, wait_until


def lazy(model: str = "scripted", keep_alive: float | None = None) -> LazyEngine:
    return LazyEngine(model, EngineSettings(), keep_alive)


def test_nothing_opens_before_the_first_use(script: Scripted) -> None:
    engine = lazy()
    copy.deepcopy(engine), pickle.loads(pickle.dumps(engine)), engine == lazy(), repr(engine)
    assert script.opened == []
    with engine.using() as opened:
        assert opened.model_id == "scripted"
    assert len(script.opened) == 1


def test_many_first_users_open_it_once(script: Scripted) -> None:
    script.open_seconds = 0.1
    engine = lazy()

    def use(_: int) -> str:
        with engine.using() as opened:
            return opened.model_id

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(use, range(16))) == {"scripted"}
    assert len(script.opened) == 1


def test_equal_specs_share_one_engine_until_the_last_closes(script: Scripted) -> None:
    one, two = lazy(), lazy()
    with one.using() as first, two.using() as second:
        assert first.identity == second.identity
    assert len(script.opened) == 1
    one.close()
    assert script.closed == []
    with two.using() as still:
        assert len(still.submit(EmbedRequest(("a",))).result().vectors) == 1
    two.close()
    wait_until(lambda: script.closed == ["scripted"])


def test_unloading_gives_an_unused_engine_back_and_the_next_use_opens_it_again(script: Scripted) -> None:
    engine = lazy(keep_alive=1000.0)
    with engine.using():
        assert not engine.unload()
    assert engine.unload()
    wait_until(lambda: script.closed == ["scripted"])
    assert engine.unload()
    with engine.using() as opened:
        assert opened.model_id == "scripted"
    assert len(script.opened) == 2
    engine.close()
    assert engine.unload()


def test_a_copy_outlives_its_original(script: Scripted) -> None:
    original = lazy()
    twin = copy.deepcopy(original)
    assert twin == original
    with original.using():
        pass
    original.close()
    with twin.using() as engine:
        assert not engine.closed


def test_use_after_close_says_so(script: Scripted) -> None:
    engine = lazy()
    engine.close()
    engine.close()
    with pytest.raises(EngineClosedError, match="make a new one"), engine.using():
        pass
    assert script.opened == []


def test_closing_while_it_opens_leaves_nothing_open(script: Scripted) -> None:
    script.open_seconds = 0.2
    engine = lazy()

    async def impatient() -> None:
        async with asyncio.timeout(0.05):
            async with engine.ausing():
                pytest.fail("it can't be open yet")

    with pytest.raises(TimeoutError):
        asyncio.run(impatient())
    engine.close()
    wait_until(lambda: script.closed == ["scripted"])


def test_one_waiter_that_gives_up_does_not_stop_the_others(script: Scripted) -> None:
    script.open_seconds = 0.2
    engine = lazy()

    async def use() -> str:
        async with engine.ausing() as opened:
            return opened.model_id

    async def two() -> str:
        quitter, stayer = asyncio.create_task(use()), asyncio.create_task(use())
        await asyncio.sleep(0.05)
        quitter.cancel()
        return await stayer

    assert asyncio.run(two()) == "scripted"
    assert len(script.opened) == 1


def test_a_failed_opening_is_tried_again(script: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = lazy("later")
    for _ in range(2):
        with pytest.raises(ModelNotFoundError), engine.using():
            pass
    monkeypatch.setattr("tests.adapters.scripted.MODELS", ("later",))
    with engine.using() as opened:
        assert opened.model_id == "later"


def test_opening_leaves_the_event_loop_and_its_executor_free(script: Scripted) -> None:
    script.open_seconds = 0.3
    engine = lazy()

    async def use() -> None:
        async with engine.ausing():
            pass

    async def crowd() -> float:
        users = [asyncio.create_task(use()) for _ in range(50)]  # more than the default executor has threads
        await asyncio.sleep(0)
        started = time.perf_counter()
        await asyncio.to_thread(time.sleep, 0)
        waited = time.perf_counter() - started
        await asyncio.gather(*users)
        return waited

    # A tenth of the opening on a busy machine; behind the crowd it would be all of it.
    assert asyncio.run(crowd()) < 0.2


def test_an_idle_engine_closes_and_opens_again(script: Scripted) -> None:
    engine = lazy(keep_alive=0.05)
    with engine.using():
        time.sleep(0.15)
        assert script.closed == [], "in use, however long"
    wait_until(lambda: script.closed == ["scripted"])
    with engine.using() as again:
        assert not again.closed
    assert len(script.opened) == 2


def test_use_in_time_keeps_it_open(script: Scripted) -> None:
    engine = lazy(keep_alive=5)
    for _ in range(3):
        with engine.using():
            pass
    assert len(script.opened) == 1
    assert script.closed == []


@pytest.mark.parametrize("keep_alive", [-1, float("nan"), float("inf")])
def test_a_keep_alive_that_is_no_time_is_refused(keep_alive: float) -> None:
    with pytest.raises(SettingsError, match="keep_alive"):
        lazy(keep_alive=keep_alive)


@pytest.mark.parametrize("keep_alive", [None, 3600])
def test_dropping_it_gives_the_engine_back(script: Scripted, keep_alive: float | None) -> None:
    engine = lazy(keep_alive=keep_alive)
    with engine.using():
        pass
    del engine
    wait_until(lambda: script.closed == ["scripted"])


def test_engines_of_other_models_close_with_it_and_are_not_had_after_that(script: Scripted) -> None:
    engine = lazy()
    assert engine.of("scripted") is engine
    other = engine.of("scripted-2")
    assert other is engine.of("scripted-2")
    assert other == lazy("scripted-2")
    with other.using():
        pass
    engine.close()
    wait_until(lambda: script.closed == ["scripted-2"])
    for use in (lambda: other.using().__enter__(), lambda: engine.of("scripted-2"), lambda: engine.of("new")):
        with pytest.raises(EngineClosedError, match="make a new one"):
            use()
