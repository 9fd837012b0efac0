"""Grammars that take long to compile: their requests wait, and those of others do not."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from doppler_core.engine import limiting
from doppler_core.engine.request import GenerateRequest
from doppler_core.errors import CancelledError, InputError
from doppler_core.text.grammar import Grammar, Regex
from doppler_core.text.grammar.masks import Constraint, constraint
from doppler_core.text.grammar.table import TokenTable
from tests.causal_fakes import Opening, answer, prompt


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """No grammar is compiled before the event is set."""
    event = threading.Event()

    def slow(table: Any, grammar: Grammar) -> Constraint:
        assert event.wait(10)
        return constraint(table, grammar)

    monkeypatch.setattr(limiting, "constraint", slow)
    yield event
    event.set()


def test_others_go_on_and_the_grammar_holds_once_it_is_there(opened: Opening, compiled: threading.Event) -> None:  # fmt: skip
    model, executor = opened()
    limited = model.submit(GenerateRequest(prompt(1, 6), grammar=Regex("[a-c]{4}"), max_tokens=20))
    for seed in range(3):
        assert list(model.generate(prompt(seed, 8), max_tokens=9).ids) == answer(
            executor.size, prompt(seed, 8), 9
        )
    assert not limited.done()
    compiled.set()
    found = limited.result(10)
    assert (len(found.text), set(found.text) <= set("abc"), found.finish_reason) == (4, True, "stop")


def test_a_request_that_waits_can_be_given_up(opened: Opening, compiled: threading.Event) -> None:
    model, _ = opened()
    handle = model.submit(GenerateRequest(prompt(1, 6), grammar=Regex("[a-c]{4}")))
    time.sleep(0.05)
    handle.cancel()
    begin = time.perf_counter()
    assert [delta.finish_reason for delta in handle] == ["cancelled"]
    with pytest.raises(CancelledError):
        handle.result(10)
    assert time.perf_counter() - begin < 5, "nobody waits for what nobody wants"


def test_closing_does_not_wait_for_a_grammar(opened: Opening, compiled: threading.Event) -> None:
    model, _ = opened()
    model.submit(GenerateRequest(prompt(1, 6), grammar=Regex("[a-c]{4}")))
    begin = time.perf_counter()
    model.close()
    assert time.perf_counter() - begin < 5


def test_a_worker_that_only_waits_does_not_spin(opened: Opening, compiled: threading.Event) -> None:
    model, _ = opened()
    handle = model.submit(GenerateRequest(prompt(1, 6), grammar=Regex("[a-c]{4}")))
    time.sleep(0.1)
    begin = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - begin < 0.25
    compiled.set()
    assert len(handle.result(10).text) == 4


def test_what_makes_a_grammar_is_waited_for_when_the_program_ends(
    opened: Opening, compiled: threading.Event
) -> None:
    """It runs native code; a thread that a daemon starts, as the worker is one, would be a daemon too."""
    model, _ = opened()
    handle = model.submit(GenerateRequest(prompt(1, 6), grammar=Regex("[a-c]{4}"), max_tokens=9))
    while not (begun := [thread for thread in threading.enumerate() if thread.name.endswith("grammar")]):
        time.sleep(0.01)
    compiled.set()
    handle.result(10)
    assert not any(thread.daemon for thread in begun)


def test_a_grammar_that_is_none_fails_its_own_request(opened: Opening) -> None:
    model, executor = opened()
    other = model.submit(GenerateRequest(prompt(3, 8), max_tokens=30))
    with pytest.raises(InputError, match="grammar"):
        model.generate(prompt(1, 6), grammar=Regex("[a-"))
    assert list(other.result(10).ids) == answer(executor.size, prompt(3, 8), 30)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[TokenTable]:
    """The tables that somebody wanted."""
    tables: list[TokenTable] = []
    start = TokenTable.start

    def noted(table: TokenTable) -> None:
        tables.append(table)
        start(table)

    monkeypatch.setattr(TokenTable, "start", noted)
    return tables


def test_the_table_is_made_for_the_first_grammar_and_not_for_a_text(
    opened: Opening, begun: list[TokenTable]
) -> None:
    model, _ = opened()
    model.generate(prompt(1, 6), max_tokens=3)
    assert not begun
    model.generate(prompt(1, 6), grammar=Regex("[a-c]{4}"))
    assert len(set(map(id, begun))) == 1


def test_warmup_begins_the_table(opened: Opening, begun: list[TokenTable]) -> None:
    model, _ = opened()
    model.warmup()
    assert len(begun) == 1
