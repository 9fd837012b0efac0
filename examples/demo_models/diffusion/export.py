"""The checkpoint folder: the trained model as transformers' files, laid out like DiffusionGemma.

Takes the model and its tokenizer, gives files; `read_model` gives back the model as its files say. Matrices are stored
as F16, vectors as F32. Knows nothing of training.
"""

import json
from pathlib import Path
from typing import Any

import beside  # noqa: F401
import torch
from layers import Shape
from network import DiffusionModel
from safetensors.torch import load_file, save_file
from sampler import Settings
from tokenizer import CONTROL
from tokenizers import Tokenizer

LONGEST = 512  # tokens
_IDS = {token: number for number, token in CONTROL.items()}
_ENDS = [_IDS[token] for token in ("<eos>", "<turn|>", "<|tool_response>")]
_NAMED = {f"{name}_token_id": _IDS[f"<{name}>"] for name in ("pad", "bos")} | {"eos_token_id": _ENDS}
# transformers builds a vision tower whatever the checkpoint has: the smallest that it takes.
_NO_VISION = {
    "model_type": "gemma4_vision", "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
    "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 16, "position_embedding_size": 16,
}  # fmt: skip


def config(shape: Shape) -> dict[str, Any]:
    """config.json."""
    text = _NAMED | {
        "attention_bias": False,
        "dtype": "float16",
        "final_logit_softcapping": shape.softcap,
        "global_head_dim": shape.full_head_dim,
        "head_dim": shape.head_dim,
        "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "layer_types": list(shape.kinds),
        "max_position_embeddings": LONGEST,
        "model_type": "diffusion_gemma_text",
        "moe_intermediate_size": shape.expert_width,
        "num_attention_heads": shape.heads,
        "num_experts": shape.experts,
        "num_global_key_value_heads": shape.kv_heads,
        "num_hidden_layers": len(shape.kinds),
        "num_key_value_heads": shape.kv_heads,
        "rms_norm_eps": shape.eps,
        "rope_parameters": {
            "full_attention": {
                "partial_rotary_factor": shape.rotated,
                "rope_theta": shape.theta_full,
                "rope_type": "proportional",
            },
            "sliding_attention": {"rope_theta": shape.theta_sliding, "rope_type": "default"},
        },
        "sliding_window": shape.window,
        "tie_word_embeddings": True,
        "top_k_experts": shape.chosen,
        "use_bidirectional_attention": None,
        "vocab_size": shape.vocab,
    }
    return {
        "architectures": ["DiffusionGemmaForBlockDiffusion"],
        "boi_token_id": None,
        "canvas_length": shape.canvas,
        "dtype": "float16",
        "eoi_token_id": None,
        "image_token_id": None,
        "model_type": "diffusion_gemma",
        "text_config": text,
        "tie_word_embeddings": True,
        "vision_config": _NO_VISION,
    }


def generation_config(settings: Settings) -> dict[str, Any]:
    """generation_config.json."""
    return _NAMED | {
        "confidence_threshold": settings.confident,
        "max_denoising_steps": settings.steps,
        "max_new_tokens": 128,
        "sampler_config": {"_cls_name": "EntropyBoundSamplerConfig", "entropy_bound": settings.bound},
        "stability_threshold": 1,
        "t_max": settings.hot,
        "t_min": settings.cold,
    }


def write_checkpoint(model: DiffusionModel, tokenizer: Tokenizer, out: Path) -> None:
    """Write the folder, in place of what is there."""
    out.mkdir(parents=True, exist_ok=True)
    _write_json(out / "config.json", config(model.shape))
    _write_json(out / "generation_config.json", generation_config(Settings()))
    tokens = {f"{name}_token": f"<{name}>" for name in ("bos", "eos", "pad", "unk")}
    _write_json(
        out / "tokenizer_config.json",
        tokens | {"model_max_length": LONGEST, "tokenizer_class": "PreTrainedTokenizerFast"},
    )
    (out / "tokenizer.json").write_text(tokenizer.to_str(pretty=False), "utf-8")
    state = {}
    for name, tensor in model.state_dict().items():
        stored = tensor.detach().to(torch.float16 if tensor.dim() == 2 else torch.float32)
        fused = ".experts." in name
        state[name] = (stored.unflatten(0, (model.shape.experts, -1)) if fused else stored).contiguous()
    save_file(state, out / "model.safetensors", metadata={"format": "pt"})


def read_model(folder: Path) -> tuple[DiffusionModel, Tokenizer]:
    """The model in F32 with the stored (F16-rounded) weights, and its tokenizer."""
    model = DiffusionModel(Shape())
    state = load_file(folder / "model.safetensors")
    model.load_state_dict(
        {name: (t.flatten(0, 1) if t.dim() == 3 else t).float() for name, t in state.items()}
    )
    return model.eval(), Tokenizer.from_file(str(folder / "tokenizer.json"))


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", "utf-8")
