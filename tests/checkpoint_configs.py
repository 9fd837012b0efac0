"""What the publishers' files say, as far as a manifest is resolved from it: EmbeddingGemma, and a tiny one of its kind."""

from typing import Any


def dense(weight: int, inputs: int, outputs: int) -> dict[str, Any]:
    name = f"embedding_postprocessor.projections.{weight}.weight"
    return {
        "weight": name,
        "bias": None,
        "in_features": inputs,
        "out_features": outputs,
        "activation": "identity",
    }


def embeddinggemma() -> dict[str, Any]:
    """config.json of google/embeddinggemma-300m (transformers 4.57)."""
    return {
        "_sliding_window_pattern": 6,
        "architectures": ["Gemma3TextModel"],
        "attention_bias": False,
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
        "head_dim": 256,
        "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": 768,
        "intermediate_size": 1152,
        "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 4,
        "max_position_embeddings": 2048,
        "model_type": "gemma3_text",
        "num_attention_heads": 3,
        "num_hidden_layers": 24,
        "num_key_value_heads": 1,
        "query_pre_attn_scalar": 256,
        "rms_norm_eps": 1e-06,
        "rope_local_base_freq": 10000.0,
        "rope_scaling": None,
        "rope_theta": 1000000.0,
        "sliding_window": 512,
        "use_bidirectional_attention": True,
        "vocab_size": 262144,
    }


def embeddinggemma_modules() -> dict[str, Any]:
    """Its sentence-transformers files, read."""
    return {
        "pooling": "mean",
        "include_prompt": True,
        "dense": [dense(0, 768, 3072), dense(1, 3072, 768)],
        "normalize": True,
        "prompts": {"query": "task: search result | query: ", "document": "title: none | text: "},
        "default_prompt_name": None,
        "max_seq_length": 2048,
        "similarity": "cosine",
    }


def tiny() -> dict[str, Any]:
    """A config.json as transformers 5 writes it; its stale period is not the one of its layer_types."""
    return {
        "_sliding_window_pattern": 6,
        "architectures": ["Gemma3TextModel"],
        "attention_bias": False,
        "head_dim": 32,
        "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": 64,
        "intermediate_size": 96,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "max_position_embeddings": 512,
        "model_type": "gemma3_text",
        "num_attention_heads": 2,
        "num_hidden_layers": 3,
        "num_key_value_heads": 1,
        "query_pre_attn_scalar": 32,
        "rms_norm_eps": 1e-06,
        "rope_parameters": {
            "full_attention": {"rope_theta": 1000000.0, "rope_type": "default"},
            "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
        },
        "sliding_window": 8,
        "tie_word_embeddings": True,
        "use_bidirectional_attention": True,
        "vocab_size": 768,
    }


def tiny_modules() -> dict[str, Any]:
    return embeddinggemma_modules() | {
        "dense": [dense(0, 64, 128), dense(1, 128, 64)],
        "max_seq_length": None,
        "similarity": None,
        "prompts": {},
    }


def gemma3_it(size: str) -> dict[str, Any]:
    """config.json of google/gemma-3-270m-it and google/gemma-3-1b-it, the keys that a manifest is resolved from."""
    hidden, inner, layers = {"270m": (640, 2048, 18), "1b": (1152, 6912, 26)}[size]
    return {
        "architectures": ["Gemma3ForCausalLM"],
        "attention_bias": False,
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
        "head_dim": 256,
        "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": hidden,
        "intermediate_size": inner,
        "max_position_embeddings": 32768,
        "model_type": "gemma3_text",
        "num_attention_heads": 4,
        "num_hidden_layers": layers,
        "num_key_value_heads": 1,
        "query_pre_attn_scalar": 256,
        "rms_norm_eps": 1e-06,
        "rope_local_base_freq": 10000,
        "rope_scaling": None,
        "rope_theta": 1000000,
        "sliding_window": 512,
        "sliding_window_pattern": 6,
        "vocab_size": 262144,
    }


def gemma4_e2b() -> dict[str, Any]:
    """config.json of google/gemma-4-E2B-it, its text stack as a manifest is resolved from it."""
    text = {
        "attention_bias": False,
        "attention_k_eq_v": False,
        "enable_moe_block": False,
        "final_logit_softcapping": 30.0,
        "global_head_dim": 512,
        "head_dim": 256,
        "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": 1536,
        "hidden_size_per_layer_input": 256,
        "intermediate_size": 6144,
        "layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 7,
        "max_position_embeddings": 131072,
        "model_type": "gemma4_text",
        "num_attention_heads": 8,
        "num_global_key_value_heads": None,
        "num_hidden_layers": 35,
        "num_key_value_heads": 1,
        "num_kv_shared_layers": 20,
        "rms_norm_eps": 1e-06,
        "rope_parameters": {
            "full_attention": {
                "partial_rotary_factor": 0.25,
                "rope_theta": 1000000.0,
                "rope_type": "proportional",
            },
            "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
        },
        "sliding_window": 512,
        "tie_word_embeddings": True,
        "use_bidirectional_attention": None,
        "use_double_wide_mlp": True,
        "vocab_size": 262144,
        "vocab_size_per_layer_input": 262144,
    }
    return {
        "architectures": ["Gemma4ForConditionalGeneration"],
        "model_type": "gemma4",
        "text_config": text,
        "tie_word_embeddings": True,
    }


def diffusiongemma() -> dict[str, Any]:
    """config.json of google/diffusiongemma-26B-A4B-it, its text stack as a manifest is resolved from it."""
    text = {
        "attention_bias": False,
        "final_logit_softcapping": 30.0,
        "global_head_dim": 512,
        "head_dim": 256,
        "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": 2816,
        "intermediate_size": 2112,
        "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 5,
        "max_position_embeddings": 262144,
        "model_type": "diffusion_gemma_text",
        "moe_intermediate_size": 704,
        "num_attention_heads": 16,
        "num_experts": 128,
        "num_global_key_value_heads": 2,
        "num_hidden_layers": 30,
        "num_key_value_heads": 8,
        "rms_norm_eps": 1e-06,
        "rope_parameters": gemma4_e2b()["text_config"]["rope_parameters"],
        "sliding_window": 1024,
        "tie_word_embeddings": True,
        "top_k_experts": 8,
        "use_bidirectional_attention": "vision",
        "vocab_size": 262144,
    }
    return {
        "architectures": ["DiffusionGemmaForBlockDiffusion"],
        "boi_token_id": 255999,
        "canvas_length": 256,
        "eoi_token_id": 258882,
        "image_token_id": 258880,
        "model_type": "diffusion_gemma",
        "text_config": text,
        "tie_word_embeddings": True,
    }


def diffusiongemma_generation() -> dict[str, Any]:
    """A generation_config.json for it, as transformers writes one; its numbers are not the class's defaults."""
    return {
        "confidence_threshold": 0.01,
        "eos_token_id": [1, 106, 50],
        "max_denoising_steps": 32,
        "max_new_tokens": 512,
        "pad_token_id": 0,
        "sampler_config": {"_cls_name": "EntropyBoundSamplerConfig", "entropy_bound": 0.2},
        "stability_threshold": 2,
        "t_max": 0.9,
        "t_min": 0.3,
    }
