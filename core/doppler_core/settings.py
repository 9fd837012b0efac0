"""What a process may set: the engine's settings, the DOPPLER_PLUGINS_* variables, the folders.

Arguments beat the environment, the environment beats the defaults. Nothing is read at import.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from numbers import Integral
from pathlib import Path
from typing import Literal

from doppler_core.errors import SettingsError

Overflow = Literal["error", "truncate"]
Progress = Callable[[str, int, int], None]  # what is being done, how much is done, of how much

_PACKAGE = Path(__file__).parent
_CHECKOUT = _PACKAGE.parents[1]


def data_dir(kind: Literal["wgsl", "manifests", "models"]) -> Path:
    """A data folder of the installed wheel, or of the checkout in an editable install."""
    packaged = _PACKAGE / kind
    return packaged if packaged.is_dir() else _CHECKOUT / kind


@dataclass(frozen=True)
class EngineSettings:
    """How a model is opened. Two equal settings of one model share one engine.

    device: "auto" (a hardware GPU adapter, else NumPy), "wgpu", "wgpu:<part of the name or index>" or "numpy".
    kernel_profile: name of a kernel profile; None = the first whose `when` matches the GPU adapter.
    precision: chooses among a checkpoint's shipped manifests ("f16", "q8_0", "q4k"); None = its default.
    manifest: path of a manifest that replaces the artifact's own.
    memory_limit: bytes that the engines of this process may use; None = 80 % of what is free.
    context_length: upper bound on tokens of one sequence; None = the model's own, for a model that generates text at
        most 8192, and less where memory is short.
    slots: sequences that a model that generates text works on at once; None = 4, and fewer where memory is short.
    cache_dir: where converted artifacts are kept; None = DOPPLER_PLUGINS_CACHE_DIR, else the user's cache folder.
    revision, offline: for `hf:` models: the commit or tag, and whether the network is off limits.
    """

    device: str = "auto"
    kernel_profile: str | None = None
    precision: str | None = None
    manifest: str | None = None
    memory_limit: int | None = None
    context_length: int | None = None
    slots: int | None = None
    cache_dir: str | None = None
    revision: str | None = None
    offline: bool = False

    def __post_init__(self) -> None:
        _check_types(self)
        if not (self.device in ("auto", "wgpu", "numpy") or self.device.startswith("wgpu:")):
            raise SettingsError(
                f"device={self.device!r}: expected 'auto', 'numpy' (the processor), 'wgpu' (a GPU of any make) or "
                "'wgpu:<part of a GPU adapter's name, or its index>'; `doppler-plugins doctor` lists the GPU adapters"
            )
        for name, what in _COUNTS.items():
            value = getattr(self, name)
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, Integral) or value <= 0
            ):
                raise SettingsError(f"{name}={value!r}: expected a positive whole number of {what}, or None")
            if value is not None:
                object.__setattr__(self, name, int(value))  # numpy's are no JSON

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] | None = None, **arguments: object
    ) -> "EngineSettings":
        """Settings from arguments that are not None, then DOPPLER_PLUGINS_*, then the defaults."""
        environment = os.environ if environment is None else environment
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(arguments) - known)
        if unknown:
            raise SettingsError(f"unknown settings {unknown}: expected some of {sorted(known)}")
        found: dict[str, object] = {}
        for name, read in _VARIABLES.items():
            if (text := environment.get(variable(name))) not in (None, ""):
                found[name] = read(variable(name), text)
        given = {name: value for name, value in arguments.items() if value is not None}
        try:
            return replace(cls(), **found | given)  # type: ignore[arg-type]
        except SettingsError as error:
            name = str(error).partition("=")[0]
            if name in given or name not in found:
                raise
            raise SettingsError(f"{variable(name)}: {error}") from None


_NAMES = ("device", "kernel_profile", "precision", "revision")
_PATHS = ("manifest", "cache_dir")
_COUNTS = {"memory_limit": "bytes", "context_length": "tokens", "slots": "requests"}


def _check_types(settings: EngineSettings) -> None:
    for name in (*_NAMES, *_PATHS):
        value = getattr(settings, name)
        is_text = isinstance(value, str) or (name in _PATHS and isinstance(value, os.PathLike))
        if not (is_text or (value is None and name != "device")) or "\0" in str(value):
            raise SettingsError(f"{name}={value!r}: expected {'a path' if name in _PATHS else 'a str'}")
    if not isinstance(settings.offline, bool):
        raise SettingsError(f"offline={settings.offline!r}: expected True or False")


def variable(name: str) -> str:
    """The environment variable of a setting: `cache_dir` is DOPPLER_PLUGINS_CACHE_DIR."""
    return f"DOPPLER_PLUGINS_{name.upper()}"


def variables() -> tuple[str, ...]:
    """Every variable that stands for a setting."""
    return tuple(map(variable, _VARIABLES))


def _text(_: str, text: str) -> str:
    return text


def read_bytes(name: str, text: str) -> int:
    """A size as people write it: a whole number of bytes, or a number with a unit, decimal (GB) or binary (GiB)."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise SettingsError(f"{name}={text!r}: expected a number of bytes, as 8000000000, 8GB or 7.5GiB")
    number, prefix, binary = found.groups()
    thousand = 1024 if binary else 1000
    return int(Decimal(number) * thousand ** (" KMGT".index(prefix.upper()) if prefix else 0))


def _flag(name: str, text: str) -> bool:
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("0", "false", "no", "off"):
        return False
    raise SettingsError(f"{name}={text!r}: expected 1 or 0")


_SIZE = re.compile(
    r"(-?\d{1,18}|\d{1,15}\.\d{1,15}(?=\s*[kmgt]))\s*(?:([kmgt])(i?)b|b)?", re.ASCII | re.IGNORECASE
)

_VARIABLES = {
    "device": _text,
    "kernel_profile": _text,
    "precision": _text,
    "memory_limit": read_bytes,
    "cache_dir": _text,
    "offline": _flag,
}


def cache_dir(settings: EngineSettings) -> Path:
    """The folder of converted artifacts; not created here."""
    if own := settings.cache_dir or os.environ.get(variable("cache_dir")):
        return expanded(own)
    return expanded(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "doppler-plugins"


def expanded(path: str | os.PathLike[str]) -> Path:
    """The path with `~` replaced; SettingsError where nobody has that home folder."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise SettingsError(
            f"{path}: there is no such home folder; set HOME, or give the whole path (the cache's is "
            f"{variable('cache_dir')})"
        ) from None
