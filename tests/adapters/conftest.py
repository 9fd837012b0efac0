"""Gives every adapter test a scripted model in place of real ones, unless it asks for those."""

import gc
import sys
import types
from collections.abc import Iterator

import pytest

from tests.adapters.scripted import Scripted


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    """What the scripted models do and saw; while it is in use nothing else can be opened."""
    script = Scripted()
    monkeypatch.setitem(
        sys.modules, "doppler_plugins.opening", types.SimpleNamespace(open_engine=script.open_engine)
    )
    yield script
    gc.collect()  # engines left open by the test close before the next one looks at what is open
