"""Tensor names: the logical names of manifests and roles, and what the publishers call the same tensors."""

from collections.abc import Mapping

from doppler_core.errors import PlanError
from doppler_core.weights.tensor import Tensor

# Role of an op -> the module that holds its weight, as manifests ("layer.{L}.<module>") and checkpoints name it.
MODULES: Mapping[str, str] = {
    "embed": "embed_tokens",
    "input_norm": "input_layernorm",
    "q_proj": "self_attn.q_proj",
    "k_proj": "self_attn.k_proj",
    "v_proj": "self_attn.v_proj",
    "q_norm": "self_attn.q_norm",
    "k_norm": "self_attn.k_norm",
    "o_proj": "self_attn.o_proj",
    "post_attn_norm": "post_attention_layernorm",
    "pre_feedforward_norm": "pre_feedforward_layernorm",
    "gate_proj": "mlp.gate_proj",
    "up_proj": "mlp.up_proj",
    "down_proj": "mlp.down_proj",
    "post_feedforward_norm": "post_feedforward_layernorm",
    "final_norm": "norm",
}

# What publishers put before the text stack's names, tried in this order.
PREFIXES = ("", "model.", "language_model.", "model.language_model.", "language_model.model.")


def logical_name(role: str, layer: int | None) -> str | None:
    """What a manifest's step writes as the weights of a role; None where the role has none."""
    module = MODULES.get(role)
    if module is None:
        return None
    return module if layer is None else f"layer.{{L}}.{module}"


class TensorNames:
    """Finds the tensors of a text stack whatever its publisher put before their names."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = tensors
        found = [prefix for prefix in PREFIXES if f"{prefix}embed_tokens.weight" in tensors]
        if not found:
            raise PlanError(
                f"no tensor `embed_tokens.weight` under any of the prefixes {list(PREFIXES)}: expected the weights of a "
                f"Gemma text model, found {sorted(tensors)[:3]} and {max(0, len(tensors) - 3)} more"
            )
        self._prefix = found[0]

    def tensor(self, role: str, layer: int | None) -> Tensor:
        """The weight of a role."""
        module = MODULES[role]
        place = module if layer is None else f"layers.{layer}.{module}"
        return self.named(f"{self._prefix}{place}.weight")

    def named(self, name: str) -> Tensor:
        """The tensor of exactly this name."""
        if name not in self._tensors:
            raise PlanError(f"the weights have no tensor {name!r}, which the plan needs")
        return self._tensors[name]
