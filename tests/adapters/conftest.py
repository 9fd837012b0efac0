"""Gives every adapter test a scripted model in place of real ones, unless it asks for those."""

import pytest

from tests.adapters.scripted import Scripted


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """What the scripted models do and saw; while it is in use nothing else can be opened."""
    script = Scripted()
    monkeypatch.setattr("doppler_plugins.opening.open_engine", script.open_engine)
    return script
