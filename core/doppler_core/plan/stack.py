"""What the layers of a text stack share while they are lowered, and the rows that go into the first of them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from doppler_core.errors import PlanError
from doppler_core.manifest.model import Manifest
from doppler_core.plan.builder import Builder, Params
from doppler_core.plan.layers import Layer, layers
from doppler_core.plan.op import State, Value
from doppler_core.plan.sizes import Sizes, given, sizes


@dataclass(frozen=True)
class Stack:
    """One phase of a text stack.

    positions: how many a sequence may have. states: keys and values by the layer that owns them; None where a
    sequence is whole within a step and nothing is kept. canvas: each row sees all rows of its sequence's step.
    scalars: what stands before the names of the layers' factors, where that is not what stands before the weights'.
    """

    build: Builder
    manifest: Manifest
    positions: int
    states: Mapping[int, State] | None = None
    canvas: bool = False
    scalars: str | None = None

    @cached_property
    def sizes(self) -> Sizes:
        """The manifest's `architecture`."""
        return sizes(self.manifest)

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """All layers in order."""
        return layers(self.manifest)

    @cached_property
    def norm(self) -> Params:
        """The numerics of every norm."""
        normalization = self.manifest.inference.normalization
        plus_one = normalization.rms_norm_weight_offset
        return {
            "eps": given(normalization.rms_norm_eps, "normalization.rmsNormEps"),
            "offset": float(given(plus_one, "normalization.rmsNormWeightOffset")),
        }

    @cached_property
    def embedding_scale(self) -> float:
        """What the rows of the token table are multiplied by."""
        output = self.manifest.inference.output
        return math.sqrt(self.sizes.hidden_size) if output.scale_embeddings else output.embedding_scale or 1.0


def embed(stack: Stack) -> Value:
    """The scaled rows of the token table, [T, hidden], cast if the manifest declares that."""
    architecture = stack.sizes
    table = stack.build.names.tensor("embed", None)
    expected = (architecture.vocab_size, architecture.hidden_size)
    if table.shape != expected:
        raise PlanError(
            f"{table.name}: expected shape {list(expected)} (architecture), found {list(table.shape)}"
        )
    rows = stack.build.emit(
        "gather",
        "embed",
        None,
        [],
        ("T", architecture.hidden_size),
        weights=[table],
        params={"columns": architecture.hidden_size, "scale": stack.embedding_scale},
    )
    return stack.build.cast(rows)
