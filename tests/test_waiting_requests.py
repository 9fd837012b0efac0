"""Requests that wait to be read: they are what they were when they were submitted, and one that is given up takes no time."""

import threading
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest

from doppler_core.engine.request import Capabilities, EmbedRequest, GenerateRequest
from doppler_core.engine.request_copy import own_copy
from doppler_core.errors import CancelledError, EngineClosedError, InputError
from doppler_core.text.grammar import JsonSchema, Lark
from tests.scripted_engine import Opened, ScriptedJob, ask

Change = Callable[[Any], object]


class Reading(Opened):
    """An engine whose desk notes what it reads, as soon as `driver.desk` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.engine.capabilities = Capabilities(embeds=True, generates=True)
        self.read: list[Any] = []
        self.driver.prepare = self._prepare  # type: ignore[method-assign]

    def _prepare(self, request: Any, submitted: float) -> ScriptedJob:
        self.driver.at_desk.set()
        self.driver.desk.wait(5)
        self.read.append(request)
        return ScriptedJob(1)


@pytest.fixture
def opened() -> Any:
    made = Reading()
    yield made
    made.driver.desk.set()
    made.engine.close()


def schema() -> dict[str, Any]:
    return {"type": "object", "properties": {"a": {"enum": [1]}}}


# What a request is made of, and what its owner then does with that.
HELD: list[tuple[str, Callable[[], Any], Change]] = [
    ("prompt", lambda: [{"role": "user", "content": "Hello!"}], lambda turns: turns.append(turns[0])),
    ("prompt", lambda: ({"role": "user", "content": "Hello!"},), lambda turns: turns[0].update(content="?")),
    (
        "prompt",
        lambda: ({"role": "user", "content": [{"type": "text", "text": "a"}]},),
        lambda turns: turns[0]["content"][0].clear(),
    ),
    ("prompt", lambda: [1, 2, 3], list.clear),
    ("stop", lambda: ["a"], list.clear),
    ("stop_ids", lambda: [1], list.clear),
    ("logit_bias", lambda: {1: 2.0}, dict.clear),
    ("tools", lambda: [{"name": "f", "parameters": schema()}], lambda tools: tools[0]["parameters"].clear()),
    ("grammar", lambda: JsonSchema(schema()), lambda grammar: grammar.schema["properties"]["a"].clear()),
    (
        "grammar",
        lambda: Lark("start: @a", {"a": JsonSchema(schema())}),
        lambda grammar: grammar.parts["a"].schema.clear(),
    ),
]


@pytest.mark.parametrize(("name", "make", "change"), HELD)
def test_a_generation_is_what_was_submitted_whatever_its_owner_does_next(
    opened: Reading, name: str, make: Callable[[], Any], change: Change
) -> None:
    plain, mine = GenerateRequest("a"), make()
    opened.driver.desk.clear()
    handle = opened.engine.submit(replace(plain, **{name: mine}))
    change(mine)
    opened.driver.desk.set()
    handle.result(5)
    assert opened.read == [replace(plain, **{name: make()})]
    assert mine != make(), "what was changed can be told"


def test_a_batch_may_be_cleared_as_soon_as_it_is_submitted(opened: Reading) -> None:
    opened.driver.desk.clear()
    texts, titles = ["a", "b"], ["c", None]
    handle = opened.engine.submit(EmbedRequest(texts, titles=titles))  # type: ignore[arg-type]
    texts.clear()
    titles.clear()
    opened.driver.desk.set()
    handle.result(5)
    assert (list(opened.read[0].texts), list(opened.read[0].titles)) == (["a", "b"], ["c", None])


def test_a_copy_has_every_field_and_holds_what_is_nobodys_to_change_as_it_is() -> None:
    mask, noise = (lambda: None), object()
    request = GenerateRequest("a", mask=mask, noise=noise, seed=1, thinking=True)  # type: ignore[arg-type]
    copy = own_copy(request)
    assert all(getattr(copy, one.name) is getattr(request, one.name) for one in fields(request))


def test_a_prompt_within_itself_is_refused_like_any_that_is_none(opened: Reading) -> None:
    turns: list[Any] = []
    turns.append(turns)
    opened.engine.submit(GenerateRequest(turns)).result(5)  # type: ignore[arg-type]
    assert len(opened.read) == 1, "submitted, to be refused by whoever reads it"


def test_what_comes_often_is_copied_once() -> None:
    """Else a schema of parts that share their parts would take longer than anybody waits."""
    shared: Any = {"type": "null"}
    for _ in range(60):
        shared = {"anyOf": [shared, shared], "prefixItems": (shared, [shared])}
    within: list[Any] = []
    within += [within, within, {"a": within}]
    copy = own_copy(GenerateRequest("a", tools=({"parameters": shared}, within), grammar=JsonSchema(shared)))  # type: ignore[arg-type]
    (told, again), grammar = copy.tools, copy.grammar
    assert isinstance(grammar, JsonSchema)
    assert grammar.schema is told["parameters"] is not shared  # type: ignore[index]
    assert again is not within
    assert again[0] is again[1] is again[2]["a"] is again  # type: ignore[index]


def test_a_request_given_up_at_the_desk_is_not_read_and_tells_so(opened: Reading) -> None:
    opened.driver.desk.clear()
    opened.engine.submit(ask(1))
    first = opened.engine.submit(GenerateRequest("first"))
    assert opened.driver.at_desk.wait(5)
    waiting = [opened.engine.submit(GenerateRequest(str(number))) for number in range(3)]
    behind = opened.engine.submit(GenerateRequest("behind"))
    embedding = opened.engine.submit(ask(1))
    assert all(handle.cancel() for handle in waiting)
    assert embedding.cancel()
    opened.driver.desk.set()
    for handle in waiting:
        (last,) = list(handle)
        assert last.finish_reason == "cancelled"
        assert last.usage is not None
        assert last.timings is not None
        with pytest.raises(CancelledError):
            handle.result(5)
    assert list(embedding) == []
    behind.result(5)
    assert [one.prompt for one in opened.read if isinstance(one, GenerateRequest)] == ["first", "behind"]
    first.result(5)


@pytest.mark.parametrize("where", ["prepare", "step"])
def test_code_that_the_engine_calls_is_told_that_it_would_wait_for_itself(
    opened: Reading, where: str
) -> None:
    """A mask's, or a mapping's that is a message."""
    told: list[str] = []

    def asks(*_: object) -> Any:
        for ask_again in (lambda: opened.engine.generate("a"), opened.engine.warmup):
            with pytest.raises(InputError, match="it would wait for itself for ever") as caught:
                ask_again()
            told.append(str(caught.value))
        raise InputError("and gave up")

    setattr(opened.driver, where, asks)
    with pytest.raises(InputError, match="and gave up"):
        opened.engine.submit(ask(1)).result(5)
    assert len(told) == 2


def test_a_request_dropped_at_the_desk_is_not_read_either(opened: Reading) -> None:
    opened.driver.desk.clear()
    blocking = opened.engine.submit(ask(1))
    assert opened.driver.at_desk.wait(5)
    opened.engine.submit(GenerateRequest("nobody holds its handle"))
    opened.driver.desk.set()
    opened.engine.submit(ask(1)).result(5)
    blocking.result(5)
    assert all(isinstance(one, EmbedRequest) for one in opened.read)


def test_a_request_given_up_at_the_desk_ends_when_the_engine_closes(opened: Reading) -> None:
    opened.driver.desk.clear()
    blocking = opened.engine.submit(ask(1))
    assert opened.driver.at_desk.wait(5)
    waiting = opened.engine.submit(GenerateRequest("a"))
    waiting.cancel()
    closing = threading.Thread(target=opened.engine.close)
    closing.start()
    assert opened.released.wait(5)
    opened.driver.desk.set()
    assert [delta.finish_reason for delta in waiting] == ["cancelled"]
    with pytest.raises(EngineClosedError):
        blocking.result(5)
    closing.join(5)
