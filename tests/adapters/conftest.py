"""Gives adapter tests a scripted model in place of real ones, or holds the bundled one open for them."""

from collections.abc import Iterator

import pytest

from doppler_core.settings import EngineSettings
from doppler_plugins.opening import open_engine
from tests.adapters.scripted import Scripted
from tests.adapters.scripted_chat import ScriptedChat


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """What the scripted models do and saw; while it is in use nothing else can be opened."""
    script = Scripted()
    monkeypatch.setattr("doppler_plugins.opening.open_engine", script.open_engine)
    return script


@pytest.fixture
def chat_script(monkeypatch: pytest.MonkeyPatch) -> ScriptedChat:
    """What the scripted chat models say and saw; while it is in use nothing else can be opened."""
    script = ScriptedChat()
    monkeypatch.setattr("doppler_plugins.opening.open_engine", script.open_engine)
    return script


@pytest.fixture(scope="class")
def bundled_model(request: pytest.FixtureRequest) -> Iterator[None]:
    """The bundled model for classes that say on which `device`, open from their first test to their last.

    Which one it is they may say as `bundled`.
    """
    name = getattr(request.cls, "bundled", "demo-embedding")
    with open_engine(name, EngineSettings(device=request.cls.device)):
        yield
