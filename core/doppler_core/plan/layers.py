"""The layers of a resolved manifest: each one's type, its heads and widths, and whose keys and values it reads."""

from collections.abc import Sequence
from dataclasses import dataclass

from doppler_core.errors import PlanError
from doppler_core.manifest.inference import LayerType
from doppler_core.manifest.layer_pattern import SLIDING, pattern_types
from doppler_core.manifest.model import Manifest
from doppler_core.plan.sizes import Sizes, sizes


@dataclass(frozen=True)
class Layer:
    """The shape of one layer.

    source: the layer whose keys and values it attends to: its own number where it has some.
    values_are_keys: its values are its keys, before norm and rotation.
    """

    number: int
    sliding: bool
    heads: int
    kv_heads: int
    head_dim: int
    intermediate_size: int
    source: int
    values_are_keys: bool

    @property
    def owns(self) -> bool:
        """Whether it makes keys and values."""
        return self.source == self.number


def layers(manifest: Manifest) -> tuple[Layer, ...]:
    """All layers in order; PlanError where pattern, depth and sharing do not go together."""
    architecture, types = sizes(manifest), layer_types(manifest)
    widening = 2 if manifest.inference.ffn.use_double_wide_mlp else 1
    return tuple(_layer(architecture, types, number, widening) for number in range(len(types)))


def _layer(architecture: Sizes, types: Sequence[LayerType], number: int, widening: int) -> Layer:
    sliding, source = types[number] == SLIDING, _source(architecture, types, number)
    return Layer(
        number=number,
        sliding=sliding,
        heads=architecture.num_attention_heads,
        kv_heads=architecture.num_key_value_heads if sliding else architecture.num_global_key_value_heads,
        head_dim=architecture.head_dim if sliding else architecture.global_head_dim,
        intermediate_size=architecture.intermediate_size * (1 if source == number else widening),
        source=source,
        values_are_keys=architecture.attention_k_eq_v and not sliding,
    )


def _source(architecture: Sizes, types: Sequence[LayerType], number: int) -> int:
    """The layer itself, or for the last ones, which share, the last before them of the same type."""
    owners = max(0, architecture.num_layers - architecture.num_kv_shared_layers)
    if number < owners:
        return number
    alike = [layer for layer in range(owners) if types[layer] == types[number]]
    if not alike:
        raise PlanError(
            f"architecture.numKvSharedLayers: layer {number} ({types[number]}) has no keys and values of its own, and no "
            f"layer of its type before layer {owners} has any it could read"
        )
    return alike[-1]


def layer_types(manifest: Manifest) -> tuple[LayerType, ...]:
    """Which layers attend to everything and which to a window; PlanError where the pattern is not for this depth."""
    count = sizes(manifest).num_layers
    types = pattern_types(manifest.inference.layer_pattern, count)
    if types is None or len(types) != count:
        found = "null fields" if types is None else f"{len(types)} types"
        raise PlanError(f"inference.layerPattern: expected the types of {count} layers, found {found}")
    return types
