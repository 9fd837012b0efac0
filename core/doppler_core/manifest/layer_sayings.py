"""What a checkpoint says about which layers attend fully."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from doppler_core.errors import ManifestError
from doppler_core.manifest.layer_pattern import every_n, full_layers
from doppler_core.manifest.problems import found
from doppler_core.manifest.sayings import Config, Saying, text_config

_WHERE = "inference.layerPattern"
# A config's own period; the underscore came when layer_types took over.
_PERIODS = ("sliding_window_pattern", "_sliding_window_pattern")


def pattern_says(config: Config, pattern: Mapping[str, Any]) -> Iterator[Saying]:
    """Sayings for the nulls of the manifest's `pattern` (its JSON). A list of layer types beats a period beside it."""
    text, where = text_config(config)
    types = _types(text, where)
    if types is not None:
        source, full = f"{where}layer_types", full_layers(types)
        if pattern["type"] in (None, "custom"):
            yield Saying(f"{_WHERE}.type", "custom", source, types)
            if pattern["layerTypes"] is None:
                yield Saying(f"{_WHERE}.layerTypes", list(types), source, types)
        elif pattern["type"] == "every_n":
            distance = pattern["period"] or (full[1] - full[0] if len(full) > 1 else len(types) + 1)
            yield from _every_n(pattern, distance, full[0] % distance if full else distance - 1, source)
    elif pattern["type"] in (None, "every_n") and (period := _period(text, where)) is not None:
        # transformers reads a bare period so: the last layer of each is full.
        key, distance = period
        yield Saying(f"{_WHERE}.type", "every_n", where + key, distance)
        yield from _every_n(pattern, distance, (pattern["period"] or distance) - 1, where + key)


def _every_n(pattern: Mapping[str, Any], period: int, offset: int, source: str) -> Iterator[Saying]:
    if pattern["period"] is None:
        yield Saying(f"{_WHERE}.period", period, source, period)
    if pattern["offset"] is None:
        yield Saying(f"{_WHERE}.offset", offset, source, offset)


def checkpoint_types(config: Config, layers: int) -> tuple[tuple[Any, ...], str] | None:
    """The types of all layers as the checkpoint has them, and the key that says so; None: it doesn't say."""
    text, where = text_config(config)
    types = _types(text, where)
    if types is not None:
        return tuple(types), f"{where}layer_types"
    if (period := _period(text, where)) is not None:
        key, distance = period
        return every_n(distance, distance - 1, layers), where + key
    return None


def _types(text: Config, where: str) -> Sequence[Any] | None:
    types = text.get("layer_types")
    if types is None or isinstance(types, list | tuple):
        return types
    raise ManifestError(
        f"{where}layer_types: expected a list with a type for each layer, found {found(types)}"
    )


def _period(text: Config, where: str) -> tuple[str, int] | None:
    for key in _PERIODS:
        value = text.get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ManifestError(f"{where}{key}: expected a positive whole number, found {found(value)}")
        return key, value
    return None
