"""Which layers attend to everything and which to a window: `inference.layerPattern`, resolved."""

from doppler_core.errors import PlanError
from doppler_core.manifest.inference import LayerType
from doppler_core.manifest.model import Manifest
from doppler_core.plan.sizes import sizes


def layer_types(manifest: Manifest) -> tuple[LayerType, ...]:
    """The type of each layer.

    `every_n`: full where (layer - offset) is a multiple of the period. `alternating`: full on the even or odd
    layers. `custom`: as listed. `uniform` or null: all full.
    """
    pattern, count = manifest.inference.layer_pattern, sizes(manifest).num_layers
    if pattern.layer_types is not None:
        if len(pattern.layer_types) != count:
            raise PlanError(
                f"layerPattern.layerTypes has {len(pattern.layer_types)} entries for {count} layers"
            )
        return pattern.layer_types
    if pattern.type == "every_n":
        if pattern.period is None or pattern.offset is None:
            raise PlanError("layerPattern `every_n` needs a period and an offset; null was not resolved")
        offset, period = pattern.offset, pattern.period
        return tuple(_full_if((layer - offset) % period == 0) for layer in range(count))
    if pattern.type == "alternating":
        return tuple(
            _full_if((layer % 2 == 0) == (pattern.global_pattern == "even")) for layer in range(count)
        )
    return tuple(_full_if(True) for _ in range(count))


def _full_if(condition: bool) -> LayerType:
    return "full_attention" if condition else "sliding_attention"
