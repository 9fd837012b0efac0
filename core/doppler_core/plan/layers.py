"""The type of each layer of a resolved manifest."""

from doppler_core.errors import PlanError
from doppler_core.manifest.inference import LayerType
from doppler_core.manifest.layer_pattern import pattern_types
from doppler_core.manifest.model import Manifest
from doppler_core.plan.sizes import sizes


def layer_types(manifest: Manifest) -> tuple[LayerType, ...]:
    """Which layers attend to everything and which to a window; PlanError where the pattern is not for this depth."""
    count = sizes(manifest).num_layers
    types = pattern_types(manifest.inference.layer_pattern, count)
    if types is None or len(types) != count:
        found = "null fields" if types is None else f"{len(types)} types"
        raise PlanError(f"inference.layerPattern: expected the types of {count} layers, found {found}")
    return types
