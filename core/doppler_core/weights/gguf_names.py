"""The names of tensors in GGUF files, and what the publishers of Gemma call the same tensors.

Left are the names of llama.cpp, right those of the checkpoints; `blk.N.` stands before the first and `layers.N.`
before the second where the tensor is a layer's.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from doppler_core.errors import FileFormatError
from doppler_core.weights.gguf import GgufFile
from doppler_core.weights.sentence_modules import PROJECTIONS
from doppler_core.weights.table import TensorTable

#: Tensors that describe the rotation and are no weights.
ROPE_FREQS = "rope_freqs.weight"
HEAD = "output.weight"


@dataclass(frozen=True)
class Names:
    """An architecture's tensors: `prefix` stands before the publisher's names but for those of `heads`."""

    prefix: str
    tables: Mapping[str, str]
    layers: Mapping[str, str]
    heads: Mapping[str, str]


_TABLES = {"token_embd.weight": "embed_tokens.weight", "output_norm.weight": "norm.weight"}
_LAYERS = {
    f"{ours}.weight": f"{theirs}.weight"
    for ours, theirs in {
        "attn_norm": "input_layernorm",
        "attn_q": "self_attn.q_proj",
        "attn_q_norm": "self_attn.q_norm",
        "attn_k": "self_attn.k_proj",
        "attn_k_norm": "self_attn.k_norm",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "post_attention_norm": "post_attention_layernorm",
        "ffn_norm": "pre_feedforward_layernorm",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
        "post_ffw_norm": "post_feedforward_layernorm",
    }.items()
}
_HEADS = {HEAD: "lm_head.weight"}

NAMES: Mapping[str, Names] = {
    "gemma3": Names("model.", _TABLES, _LAYERS, _HEADS),
    "gemma-embedding": Names(
        "",
        _TABLES,
        _LAYERS,
        {"dense_2.weight": f"{PROJECTIONS}.0.weight", "dense_3.weight": f"{PROJECTIONS}.1.weight"},
    ),
    "gemma4": Names(
        "model.language_model.",
        {
            **_TABLES,
            "per_layer_token_embd.weight": "embed_tokens_per_layer.weight",
            "per_layer_model_proj.weight": "per_layer_model_projection.weight",
            "per_layer_proj_norm.weight": "per_layer_projection_norm.weight",
        },
        {
            **_LAYERS,
            "inp_gate.weight": "per_layer_input_gate.weight",
            "proj.weight": "per_layer_projection.weight",
            "post_norm.weight": "post_per_layer_input_norm.weight",
            "layer_output_scale.weight": "layer_scalar",
            "ffn_gate_inp.weight": "router.proj.weight",
            "ffn_gate_inp.scale": "router.scale",
            "ffn_gate_up_exps.weight": "experts.gate_up_proj",
            "ffn_down_exps.weight": "experts.down_proj",
            "ffn_down_exps.scale": "router.per_expert_scale",
            "pre_ffw_norm_2.weight": "pre_feedforward_layernorm_2.weight",
            "post_ffw_norm_1.weight": "post_feedforward_layernorm_1.weight",
            "post_ffw_norm_2.weight": "post_feedforward_layernorm_2.weight",
        },
        _HEADS,
    ),
}

_LAYER = re.compile(r"blk\.(0|[1-9]\d*)\.(.+)")
# Towers and projectors, which some tools keep in the language model's file.
_TOWERS = ("v.", "a.", "mm.")


def published(file: GgufFile, architecture: str) -> TensorTable:
    """The tensors under their publisher's names; FileFormatError for one that the architecture does not have.

    Left out would mean: computed without. Tensors of a vision or audio tower join the unreadable ones.
    """
    names = NAMES[architecture]
    tensors, unreadable = {}, {}
    for name, tensor in file.tensors.items():
        if name == ROPE_FREQS:
            continue
        if name.startswith(_TOWERS):
            unreadable[name] = (
                f"{tensor.path}: tensor {name!r} is of a vision or audio tower, not read from GGUF"
            )
            continue
        theirs = _published(names, name)
        if theirs is None:
            raise FileFormatError(
                f"{tensor.path}: tensor {name[:200]!r} is none of the architecture {architecture}; this version would "
                "leave it out and compute something else"
            )
        tensors[theirs] = replace(tensor, name=theirs)
    for name, why in file.tensors.unreadable.items():
        unreadable[_published(names, name) or name] = why
    return TensorTable(tensors, unreadable, file.path)


def _published(names: Names, name: str) -> str | None:
    if name in names.heads:
        return names.heads[name]
    if name in names.tables:
        return names.prefix + names.tables[name]
    layer = _LAYER.fullmatch(name)
    if layer is None or layer[2] not in names.layers:
        return None
    return f"{names.prefix}layers.{layer[1]}.{names.layers[layer[2]]}"
