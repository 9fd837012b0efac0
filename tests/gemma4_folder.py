"""A tiny Gemma 4 checkpoint of random weights, as its publisher's folder would be laid out: enough to read, not to run."""

from pathlib import Path
from typing import Any

import numpy as np
from weights_files import write_json, write_safetensors

VOCABULARY, HIDDEN, WIDE, PER_LAYER, HEADS = 40, 16, 24, 4, 2
TYPES = ("sliding_attention", "full_attention", "sliding_attention", "full_attention")


def text_config(experts: bool = False) -> dict[str, Any]:
    """The text stack's config: two layers that own K and V and two that share them; or four with experts."""
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "num_hidden_layers": len(TYPES),
        "num_attention_heads": HEADS,
        "num_key_value_heads": 2 if experts else 1,
        "num_global_key_value_heads": 1 if experts else None,
        "head_dim": 8,
        "global_head_dim": 16,
        "attention_k_eq_v": experts,
        "num_kv_shared_layers": 0 if experts else 2,
        "hidden_size_per_layer_input": 0 if experts else PER_LAYER,
        "intermediate_size": WIDE,
        "use_double_wide_mlp": not experts,
        "layer_types": list(TYPES),
        "sliding_window": 6,
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-6,
        "final_logit_softcapping": 30.0,
        "hidden_activation": "gelu_pytorch_tanh",
        "attention_bias": False,
        "model_type": "gemma4_text",
        "enable_moe_block": experts,
        "tie_word_embeddings": True,
        "rope_parameters": {
            "full_attention": {
                "rope_type": "proportional",
                "rope_theta": 1e6,
                "partial_rotary_factor": 0.25,
            },
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
    } | (
        {"num_experts": 3, "top_k_experts": 2, "moe_intermediate_size": 8}
        if experts
        else {"vocab_size_per_layer_input": VOCABULARY}
    )


def shapes(text: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Every tensor of the text stack under the publisher's name, without the prefix."""
    found: dict[str, tuple[int, ...]] = {
        "embed_tokens.weight": (VOCABULARY, HIDDEN),
        "norm.weight": (HIDDEN,),
    }
    layers, shared = len(TYPES), text["num_kv_shared_layers"]
    per_layer = text["hidden_size_per_layer_input"]
    if per_layer:
        found["embed_tokens_per_layer.weight"] = (VOCABULARY, layers * per_layer)
        found["per_layer_model_projection.weight"] = (layers * per_layer, HIDDEN)
        found["per_layer_projection_norm.weight"] = (per_layer,)
    for layer, kind in enumerate(TYPES):
        full, owner = kind == "full_attention", layer < layers - shared
        head = text["global_head_dim"] if full else text["head_dim"]
        pairs = (full and text["num_global_key_value_heads"]) or text["num_key_value_heads"]
        wide = WIDE * (1 if owner else 2)
        own: dict[str, tuple[int, ...]] = {
            "self_attn.q_proj.weight": (HEADS * head, HIDDEN),
            "self_attn.o_proj.weight": (HIDDEN, HEADS * head),
            "self_attn.q_norm.weight": (head,),
            "mlp.gate_proj.weight": (wide, HIDDEN),
            "mlp.up_proj.weight": (wide, HIDDEN),
            "mlp.down_proj.weight": (HIDDEN, wide),
            "layer_scalar": (1,),
            **{f"{name}_layernorm.weight": (HIDDEN,) for name in ("input", "post_attention")},
            **{f"{name}_feedforward_layernorm.weight": (HIDDEN,) for name in ("pre", "post")},
        }
        if owner:
            own |= {
                "self_attn.k_proj.weight": (pairs * head, HIDDEN),
                "self_attn.k_norm.weight": (head,),
            }
            if not (full and text["attention_k_eq_v"]):
                own["self_attn.v_proj.weight"] = (pairs * head, HIDDEN)
        if per_layer:
            own |= {
                "per_layer_input_gate.weight": (per_layer, HIDDEN),
                "per_layer_projection.weight": (HIDDEN, per_layer),
                "post_per_layer_input_norm.weight": (HIDDEN,),
            }
        if text["enable_moe_block"]:
            own |= {
                "router.proj.weight": (3, HIDDEN),
                "router.scale": (HIDDEN,),
                "router.per_expert_scale": (3,),
                "experts.gate_up_proj": (3, 16, HIDDEN),
                "experts.down_proj": (3, HIDDEN, 8),
                "post_feedforward_layernorm_1.weight": (HIDDEN,),
                "post_feedforward_layernorm_2.weight": (HIDDEN,),
                "pre_feedforward_layernorm_2.weight": (HIDDEN,),
            }
        found |= {f"layers.{layer}.{name}": shape for name, shape in own.items()}
    return found


def write_gemma4(folder: Path, experts: bool = False) -> Path:
    """The folder, with a vision tensor beside the text stack."""
    text, random = text_config(experts), np.random.default_rng(3)
    tensors = {
        f"model.language_model.{name}": random.standard_normal(shape).astype(np.float32)
        for name, shape in shapes(text).items()
    }
    tensors["model.vision_tower.std_bias"] = np.zeros(4, np.float32)
    write_safetensors(folder / "model.safetensors", tensors)
    config = {
        "architectures": ["Gemma4ForConditionalGeneration"],
        "model_type": "gemma4",
        "text_config": text,
        "tie_word_embeddings": True,
    }
    write_json(folder / "config.json", config)
    return folder
