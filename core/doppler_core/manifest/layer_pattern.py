"""`inference.layerPattern` as a list: the one place that knows which layers attend fully."""

from collections.abc import Sequence

from doppler_core.manifest.inference import LayerPattern, LayerType

FULL: LayerType = "full_attention"
SLIDING: LayerType = "sliding_attention"


def pattern_types(pattern: LayerPattern, layers: int) -> tuple[LayerType, ...] | None:
    """The type of each of `layers` layers; None while the field that the pattern's type needs is null."""
    if pattern.type == "custom":
        return pattern.layer_types
    if pattern.type == "uniform":
        return (FULL,) * layers
    if pattern.type == "alternating" and pattern.global_pattern is not None:
        return every_n(2, 0 if pattern.global_pattern == "even" else 1, layers)
    if pattern.type == "every_n" and pattern.period is not None and pattern.offset is not None:
        return every_n(pattern.period, pattern.offset, layers)
    return None


def every_n(period: int, offset: int, layers: int) -> tuple[LayerType, ...]:
    """Full where (layer - offset) is a multiple of the period, else sliding."""
    return tuple(FULL if (layer - offset) % period == 0 else SLIDING for layer in range(layers))


def full_layers(types: Sequence[str]) -> list[int]:
    """The numbers of the layers that attend fully."""
    return [layer for layer, kind in enumerate(types) if kind == FULL]
