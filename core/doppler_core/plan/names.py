"""Tensor names: the logical names of manifests and roles, and what the publishers call the same tensors."""

from collections.abc import Mapping

from doppler_core.errors import PlanError
from doppler_core.weights.storage import to_f32
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
    "lm_head": "lm_head",
    "lm_head_prefill": "lm_head",
    "dense_norm": "post_feedforward_layernorm_1",
    "router": "router.proj",
    "experts_norm": "pre_feedforward_layernorm_2",
    "post_experts_norm": "post_feedforward_layernorm_2",
    "soft_norm": "self_conditioning.pre_norm",
    "soft_gate": "self_conditioning.gate_proj",
    "soft_up": "self_conditioning.up_proj",
    "soft_down": "self_conditioning.down_proj",
    "per_layer_embed": "embed_tokens_per_layer",
    "per_layer_model_projection": "per_layer_model_projection",
    "per_layer_projection_norm": "per_layer_projection_norm",
    "per_layer_gate": "per_layer_input_gate",
    "per_layer_projection": "per_layer_projection",
    "per_layer_norm": "post_per_layer_input_norm",
}

# The same for tensors that publishers name without a `.weight` behind.
BARE_MODULES: Mapping[str, str] = {
    "router_norm": "router.scale",
    "route": "router.per_expert_scale",
    "experts_gate_up": "experts.gate_up_proj",
    "experts_down": "experts.down_proj",
    "layer_scalar": "layer_scalar",
}

# What publishers put before the text stack's names, tried in this order.
PREFIXES = (
    "",
    "model.",
    "language_model.",
    "model.language_model.",
    "language_model.model.",
    "model.decoder.",
)

# Where a model that uses one stack in two ways keeps what is the encoder's alone.
ENCODER = "model.encoder.language_model."

# Where publishers put the weight of an output head that is not tied to the token table.
HEADS = ("lm_head.weight", "model.lm_head.weight", "language_model.lm_head.weight")


def logical_name(role: str, layer: int | None) -> str | None:
    """What a manifest's step writes as the weights of a role; None where the role has none."""
    module = MODULES.get(role)
    if module is None:
        return None
    return module if layer is None else f"layer.{{L}}.{module}"


class TensorNames:
    """Finds the tensors of a text stack whatever its publisher put before their names, and knows which were asked for."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = tensors
        self._read: set[str] = set()
        found = [prefix for prefix in PREFIXES if f"{prefix}embed_tokens.weight" in tensors]
        if not found:
            raise PlanError(
                f"no tensor `embed_tokens.weight` under any of the prefixes {list(PREFIXES)}: expected the weights of a "
                f"Gemma text model, found {sorted(tensors)[:3]} and {max(0, len(tensors) - 3)} more"
            )
        self._prefix = found[0]
        self._has_scalars = any(name.endswith(f".{BARE_MODULES['layer_scalar']}") for name in tensors)

    def tensor(self, role: str, layer: int | None) -> Tensor:
        """The weight of a role."""
        return self.named(self.name(role, layer))

    def name(self, role: str, layer: int | None, prefix: str | None = None) -> str:
        """What this publisher calls the weight of a role. prefix: of the stack that it is in, where that is another."""
        if role in BARE_MODULES:
            return self._place(BARE_MODULES[role], layer, prefix)
        return f"{self._place(MODULES[role], layer, prefix)}.weight"

    def head(self) -> Tensor:
        """The output head's own weight, which stands beside the text stack and not in it."""
        found = [name for name in HEADS if name in self._tensors]
        return self.named(found[0] if found else HEADS[0])

    def layer_scalar(self, layer: int, prefix: str | None = None) -> float:
        """The factor on a layer's output, the one value of its `layer_scalar`; 1 where the checkpoint has none at all, as
        Gemma 3's have. One that has some must have all: to a model that was trained with them, 1 is a wrong number.

        prefix: of the stack whose factor it is, where that is not the one its weights are in.
        """
        name = self.name("layer_scalar", layer, prefix)
        if not self._has_scalars:
            return 1.0
        tensor = self.named(name)
        if tensor.rows * tensor.columns != 1:
            raise PlanError(f"{name}: expected one value, found shape {list(tensor.shape)}")
        return float(to_f32(tensor).reshape(-1)[0])

    def named(self, name: str) -> Tensor:
        """The tensor of exactly this name."""
        if name not in self._tensors:
            raise PlanError(f"the weights have no tensor {name!r}, which the plan needs")
        self._read.add(name)
        return self._tensors[name]

    def has(self, name: str) -> bool:
        """Whether there is a tensor of exactly this name."""
        return name in self._tensors

    def unread(self) -> set[str]:
        """Names of the tensors that nothing asked for."""
        return set(self._tensors) - self._read

    def _place(self, module: str, layer: int | None, prefix: str | None = None) -> str:
        place = module if layer is None else f"layers.{layer}.{module}"
        return (self._prefix if prefix is None else prefix) + place
