"""Settings and folders: what has no meaning is refused where it is given, and a machine without a home is no crash."""

import dataclasses
import os
import pwd
from pathlib import Path

import numpy as np
import pytest

from doppler_core.errors import SettingsError
from doppler_core.settings import EngineSettings, cache_dir, expanded

FIELDS = [field.name for field in dataclasses.fields(EngineSettings)]


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("value", [b"numpy", 0, -1, 2.5, [], {}, "", "a\0b", object()], ids=repr)
def test_a_value_without_meaning_is_refused_by_the_name_of_its_setting(name: str, value: object) -> None:
    if value == "" and name not in ("device", "memory_limit", "context_length", "slots", "offline"):
        assert not getattr(EngineSettings(**{name: value}), name)  # type: ignore[arg-type]
        return
    with pytest.raises(SettingsError, match=f"{name}="):
        EngineSettings(**{name: value})  # type: ignore[arg-type]


def test_paths_may_be_path_objects_and_sizes_numpys() -> None:
    settings = EngineSettings(cache_dir=Path("/x"), memory_limit=np.int64(5))  # type: ignore[arg-type]
    assert cache_dir(settings) == Path("/x")
    assert settings == EngineSettings(cache_dir=Path("/x"), memory_limit=5)  # type: ignore[arg-type]
    for name in ("memory_limit", "context_length", "slots"):
        assert type(getattr(EngineSettings(**{name: np.int64(5)}), name)) is int  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("MEMORY_LIMIT", "1e9"),
        ("MEMORY_LIMIT", "-5"),
        ("OFFLINE", "maybe"),
        ("DEVICE", "abacus"),
        ("CACHE_DIR", "a\0b"),
    ],
)
def test_a_variable_without_meaning_is_refused_by_its_name(variable: str, value: str) -> None:
    environment = {f"DOPPLER_PLUGINS_{variable}": value}
    with pytest.raises(SettingsError, match=rf"^DOPPLER_PLUGINS_{variable}(=|: {variable.lower()}=)"):
        EngineSettings.from_environment(environment)
    with pytest.raises(SettingsError, match=r"^slots=0"):
        EngineSettings.from_environment({}, slots=0)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8000000000", 8 * 10**9),
        ("8GB", 8 * 10**9),
        (" 7.5 gib ", 7.5 * 2**30),
        ("1Kb", 1000),
        ("512 MiB", 2**29),
        ("3 b", 3),
        ("1.5TB", 1.5 * 10**12),
    ],
)
def test_a_variable_holds_a_size_with_its_unit(text: str, size: float) -> None:
    assert EngineSettings.from_environment({"DOPPLER_PLUGINS_MEMORY_LIMIT": text}).memory_limit == size


@pytest.mark.parametrize(
    "text", ["much", "1e9", "8G", "8.GB", "1.5", "1.5 B", "GB", "٣GB", "0x10", "8GB8", "1_000", "9" * 5000]
)
def test_what_is_no_size_is_answered_with_how_one_is_written(text: str) -> None:
    with pytest.raises(
        SettingsError, match=r"MEMORY_LIMIT=.*expected a number of bytes, as 8000000000, 8GB or"
    ):
        EngineSettings.from_environment({"DOPPLER_PLUGINS_MEMORY_LIMIT": text})


def test_in_python_a_size_is_a_number() -> None:
    with pytest.raises(SettingsError, match="expected a positive whole number of bytes"):
        EngineSettings(memory_limit="8GB")  # type: ignore[arg-type]


@pytest.mark.parametrize("device", ["cpu", "cuda", "mps", "gpu"])
def test_another_librarys_device_is_answered_with_what_stands_for_it_here(device: str) -> None:
    with pytest.raises(SettingsError, match=r"'numpy' \(the processor\), 'wgpu' \(a GPU of any make\)"):
        EngineSettings(device=device)


def test_what_is_given_stands_in_for_a_variable_without_meaning() -> None:
    environment = {"DOPPLER_PLUGINS_DEVICE": "abacus"}
    assert EngineSettings.from_environment(environment, device="numpy").device == "numpy"
    with pytest.raises(SettingsError, match=r"^device='gpu'"):
        EngineSettings.from_environment(environment, device="gpu")


def test_an_unknown_setting_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match=r"'devise'.*'device'"):
        EngineSettings.from_environment({}, devise="numpy")


def test_the_cache_is_where_the_argument_else_the_variable_else_the_system_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("DOPPLER_PLUGINS_CACHE_DIR", raising=False)
    assert cache_dir(EngineSettings()) == tmp_path / ".cache" / "doppler-plugins"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir(EngineSettings()) == tmp_path / "xdg" / "doppler-plugins"
    monkeypatch.setenv("DOPPLER_PLUGINS_CACHE_DIR", "~/own")
    assert cache_dir(EngineSettings()) == tmp_path / "own"
    assert cache_dir(EngineSettings(cache_dir="/given")) == Path("/given")


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(_: int) -> None:
        raise KeyError("getpwuid(): uid not found")

    for name in ("HOME", "XDG_CACHE_HOME", "DOPPLER_PLUGINS_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    with pytest.raises(SettingsError, match=r"HOME.*DOPPLER_PLUGINS_CACHE_DIR"):
        cache_dir(EngineSettings())
    with pytest.raises(SettingsError, match="~nobody-of-that-name"):
        expanded("~nobody-of-that-name/x")
    assert expanded(os.curdir) == Path()
