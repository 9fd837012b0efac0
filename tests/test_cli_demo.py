"""`demo`, on the tiny random model in place of the bundled one: three ways to one engine, one answer."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from doppler_plugins.cli import demo as demo_module
from doppler_plugins.cli import program
from doppler_plugins.sharing import open_count


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tiny_artifact: Path) -> None:
    """The tiny model is what the bundled name means, and whoever opens a socket fails."""

    class NoSocket(socket.socket):
        def connect(self, *_: object) -> None:
            raise AssertionError("the demo opened a socket")

    monkeypatch.setattr(socket, "socket", NoSocket)
    monkeypatch.setattr("doppler_plugins.sources.bundled_models", lambda: {"demo_embedding": tiny_artifact})


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


def test_every_option_of_an_engine_reaches_every_way(run: Any, tmp_path: Path) -> None:
    options = ("--slots", "2", "--context-length", "200", "--memory-limit", str(1 << 30), "--offline")
    ways = json.loads(run("--json", *options, "--cache-dir", str(tmp_path)))["ways"]
    assert [len(found) for found in ways.values()] == [4, 4, 4]


def test_a_framework_that_is_not_installed_is_named_with_its_remedy(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_module, "explain_missing", lambda adapter, _: f"the extra of {adapter}")
    text = run()
    assert "needs the extra of langchain.embeddings" in text
    assert "directly" in text
