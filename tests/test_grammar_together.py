"""Equal grammars that are asked for at once are compiled once, and what becomes of that is everybody's."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import doppler_core.text.grammar.table as table_module
from doppler_core.engine.request import GenerateRequest
from doppler_core.errors import CancelledError, InputError
from doppler_core.text.grammar import Regex
from doppler_core.text.grammar.library_text import library_text
from doppler_core.text.grammar.masks import constraint
from doppler_core.text.grammar.table import TokenTable
from tests.causal_fakes import Opening, prompt
from tests.grammars import open_table

WORD, OTHER = Regex("[a-c]{4}"), Regex("[d-f]{4}")


class Compiler:
    """Compiles no grammar of WORD before `gate` is open. faults: what it raises first, in turn."""

    def __init__(self, *faults: BaseException) -> None:
        self.gate = threading.Event()
        self.faults = list(faults)
        self.compiled: list[str] = []
        self.begun = threading.Event()
        self._compile: Callable[..., Any] = table_module._compiled

    def __call__(self, tokens: Any, text: str) -> Any:
        self.compiled.append(text)
        self.begun.set()
        if text == library_text(WORD):
            assert self.gate.wait(10)
        if self.faults:
            raise self.faults.pop(0)
        return self._compile(tokens, text)


def asked_at_once(table: TokenTable, compiler: Compiler, count: int) -> list[Future[Any]]:
    """So many threads ask for WORD; the first is in the middle of it when the others come."""
    with ThreadPoolExecutor(count) as pool:
        first = pool.submit(constraint, table, WORD)
        assert compiler.begun.wait(10)
        asked = [first, *(pool.submit(constraint, table, WORD) for _ in range(count - 1))]
        time.sleep(0.05)  # they wait by now, or find it there: it is compiled once either way
        compiler.gate.set()
    return asked


@pytest.fixture
def table(tmp_path: Path) -> TokenTable:
    return open_table(tmp_path)[1]


def patched(monkeypatch: pytest.MonkeyPatch, *faults: BaseException) -> Compiler:
    compiler = Compiler(*faults)
    monkeypatch.setattr(table_module, "_compiled", compiler)
    return compiler


def test_a_grammar_that_many_ask_for_is_compiled_once_and_each_has_its_own_place_in_it(
    table: TokenTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = patched(monkeypatch)
    found = [one.result() for one in asked_at_once(table, compiler, 8)]
    assert compiler.compiled == [library_text(WORD)]
    before = found[1].words().tolist()
    found[0].accept(_allowed(found[0]))
    assert found[1].words().tolist() == before


def _allowed(one: Any) -> int:
    """A token that may come."""
    words = one.words()
    return next(at for at in range(32 * len(words)) if words[at // 32] >> at % 32 & 1)


def test_another_grammar_does_not_wait(table: TokenTable, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = patched(monkeypatch)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(constraint, table, WORD)
        assert compiler.begun.wait(10)
        constraint(table, OTHER)
        assert not slow.done()
        compiler.gate.set()


@pytest.mark.parametrize("fault", [InputError("too large"), MemoryError("none is left")])
def test_an_error_is_that_of_all_who_wait_and_of_nobody_later(
    table: TokenTable, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    compiler = patched(monkeypatch, fault)
    found = asked_at_once(table, compiler, 5)
    assert {str(one.exception()) for one in found} == {str(fault)}
    assert len(compiler.compiled) == 1
    constraint(table, WORD)
    assert len(compiler.compiled) == 2


def test_who_is_interrupted_interrupts_nobody_else(table: TokenTable, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    compiler = patched(monkeypatch, KeyboardInterrupt())
    first, *others = asked_at_once(table, compiler, 5)
    assert isinstance(first.exception(), KeyboardInterrupt)
    assert all(one.exception() is None for one in others)
    assert len(compiler.compiled) == 2


def test_a_request_that_is_given_up_does_not_take_the_grammar_of_others_with_it(
    opened: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = patched(monkeypatch)
    model, _ = opened()
    first, second = (model.submit(GenerateRequest(prompt(seed, 6), grammar=WORD)) for seed in (1, 2))
    assert compiler.begun.wait(10)
    first.cancel()
    with pytest.raises(CancelledError):
        first.result(10)
    compiler.gate.set()
    assert len(second.result(10).text) == 4
    assert compiler.compiled == [library_text(WORD)]
