"""`demo`, on a tiny random model in place of the one that finds: three ways to the same engines, one answer."""

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from doppler_core.settings import data_dir
from doppler_plugins.cli import demo as demo_module
from doppler_plugins.cli import program
from doppler_plugins.sharing import open_count

# LlamaIndex's workflows look at every attribute of an agent, also at those that pydantic is about to drop.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20"),
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211"),
]


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tiny_artifact: Path) -> None:
    """The tiny model is what finds, the bundled ones answer, and whoever opens a socket fails."""

    class NoSocket(socket.socket):
        def connect(self, *_: object) -> None:
            raise AssertionError("the demo opened a socket")

    monkeypatch.setattr(socket, "socket", NoSocket)
    others = {name.replace("-", "_"): data_dir("models") / name for name in ("demo-chat", "demo-diffusion")}
    models = {"demo_embedding": tiny_artifact, **others}
    monkeypatch.setattr("doppler_plugins.sources.bundled_models", lambda: models)


@pytest.fixture(autouse=True)
def event_loop_of_the_thread() -> Iterator[None]:
    """The loop that LlamaIndex, asked without one, would make for itself and leave open."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    loop.close()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the demo; its stdout."""

    def call(*arguments: str) -> str:
        assert program.run(["demo", "--device", "numpy", *arguments]) == 0
        return capsys.readouterr().out

    return call


def test_the_frameworks_find_what_the_engine_finds(run: Any) -> None:
    ways = json.loads(run("--json"))["ways"]
    assert list(ways) == ["directly", "LangChain", "LlamaIndex"]
    direct = [(answer["question"], answer["passage"]) for answer in ways["directly"]]
    for name in ("LangChain", "LlamaIndex"):
        assert [(answer["question"], answer["passage"]) for answer in ways[name]] == direct
        for answer, expected in zip(ways[name], ways["directly"], strict=True):
            # Cosines of the same vectors, summed by each framework in its own way.
            assert answer["score"] == pytest.approx(expected["score"], abs=1e-4)
    assert open_count() == 0


def test_the_frameworks_agents_do_what_the_engine_does(run: Any) -> None:
    ways = json.loads(run("--json"))["chat"]["ways"]
    assert list(ways) == ["directly", "LangChain", "LlamaIndex"]
    _, *tasks = ways["directly"]
    assert [len(task["steps"]) for task in tasks] == [1, 1]
    for name in ("LangChain", "LlamaIndex"):
        # LlamaIndex words a tool's description otherwise, so that no more than this has to be the same.
        assert [task["steps"] for task in ways[name][1:]] == [task["steps"] for task in tasks]


def test_the_frameworks_see_the_drafts_that_the_engine_makes(run: Any) -> None:
    ways = json.loads(run("--json"))["canvas"]["ways"]
    sorting, counting = ways["directly"]
    assert (sorting["answer"], counting["answer"]) == ("apple lemon pear", "46 45 44 43 42 41 40 39")
    for one in (sorting, counting):
        assert one["steps"][0].startswith("step 1: ")
        assert one["steps"][-1].endswith(f": {one['answer']}")
    assert list(ways) == ["directly", "LangChain", "LlamaIndex"]
    assert ways["LangChain"] == ways["LlamaIndex"] == ways["directly"]


def test_every_option_of_an_engine_reaches_every_way(run: Any, tmp_path: Path) -> None:
    options = ("--slots", "2", "--context-length", "200", "--memory-limit", str(1 << 30), "--offline")
    shown = json.loads(run("--json", *options, "--cache-dir", str(tmp_path)))
    assert [len(found) for found in shown["ways"].values()] == [4, 4, 4]
    assert [len(found) for found in shown["chat"]["ways"].values()] == [3, 3, 3]
    assert [len(found) for found in shown["canvas"]["ways"].values()] == [2, 2, 2]


def test_a_framework_that_is_not_installed_is_named_with_its_remedy(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_module, "explain_missing", lambda adapter, _: f"the extra of {adapter}")
    text = run()
    assert "needs the extra of langchain.embeddings" in text
    assert "directly" in text
