"""A variable that is misspelt is told, and never passed over in silence."""

import logging
from pathlib import Path

import pytest

from doppler_plugins import open_engine, variables
from doppler_plugins.variables import KNOWN, unknown_variables


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("DOPPLER_PLUGINS_DEVCIE", "DOPPLER_PLUGINS_DEVICE"),
        ("DOPPLER_PLUGIN_DEVICE", "DOPPLER_PLUGINS_DEVICE"),
        ("DOPPLER_PLUGINS_CACHEDIR", "DOPPLER_PLUGINS_CACHE_DIR"),
        ("DOPPLER_PLUGINS_cache_dir", "DOPPLER_PLUGINS_CACHE_DIR"),
        ("DOPPLER_PLUGINS_BLOCKED", "DOPPLER_PLUGINS_BLOCK"),
        ("DOPPLER_PLUGINS_SLOTS", ""),
        ("DOPPLER_PLUGINS_", ""),
    ],
)
def test_a_variable_that_nobody_reads_comes_with_the_one_that_was_meant(name: str, near: str) -> None:
    assert unknown_variables({name: "1", "DOPPLER_PLUGINS_DEVICE": "numpy"}) == {name: near}


def test_variables_that_are_read_or_are_other_programs_are_left_alone() -> None:
    others = ("DOPPLER_TOKEN", "DOPPLER_DEVICE", "XDOPPLER_PLUGINS_DEVCIE", "HOME")
    assert unknown_variables(dict.fromkeys((*KNOWN, *others), "1")) == {}


def test_opening_a_model_says_so_once(
    tiny_artifact: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("DOPPLER_PLUGINS_DEVICE", "numpy")
    monkeypatch.setenv("DOPPLER_PLUGINS_PRECISON", "f16")
    variables.warn_of_unknown.cache_clear()
    with caplog.at_level(logging.WARNING), open_engine(tiny_artifact), open_engine(tiny_artifact):
        pass
    said = [record.getMessage() for record in caplog.records if record.name == variables.__name__]
    assert said == ["DOPPLER_PLUGINS_PRECISON is read by nobody: did you mean DOPPLER_PLUGINS_PRECISION?"]
    variables.warn_of_unknown.cache_clear()
