"""The checkpoint folder: the trained model as transformers' files, laid out like Gemma 4's text model.

Takes the model and its tokenizer, gives files; `read_model` gives back the model as its files say. Matrices are stored
as F16, norms as F32. Knows nothing of training.
"""

import json
from pathlib import Path
from typing import Any

import torch
from model import CausalModel, Shape
from safetensors.torch import load_file, save_file
from tokenizer import CONTROL
from tokenizers import Tokenizer

LONGEST = 4096  # tokens; more than it was trained on, for prompts that are long because a framework's are
_IDS = {token: number for number, token in CONTROL.items()}
_ENDS = [_IDS[token] for token in ("<eos>", "<turn|>", "<|tool_response>")]
_NAMED = {f"{name}_token_id": _IDS[f"<{name}>"] for name in ("pad", "bos")} | {"eos_token_id": _ENDS}


def config(shape: Shape) -> dict[str, Any]:
    """config.json."""
    return _NAMED | {
        "architectures": ["Gemma4ForCausalLM"],
        "attention_bias": False,
        "attention_k_eq_v": False,
        "dtype": "float16",
        "enable_moe_block": False,
        "final_logit_softcapping": shape.softcap,
        "global_head_dim": shape.full_head_dim,
        "head_dim": shape.head_dim,
        "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": shape.hidden,
        "hidden_size_per_layer_input": shape.per_layer,
        "intermediate_size": shape.intermediate,
        "layer_types": list(shape.kinds),
        "max_position_embeddings": LONGEST,
        "model_type": "gemma4_text",
        "num_attention_heads": shape.heads,
        "num_hidden_layers": len(shape.kinds),
        "num_key_value_heads": shape.kv_heads,
        "num_kv_shared_layers": shape.shared,
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
        "use_bidirectional_attention": None,
        "use_double_wide_mlp": False,
        "vocab_size": shape.vocab,
        "vocab_size_per_layer_input": shape.vocab,
    }


def write_checkpoint(model: CausalModel, tokenizer: Tokenizer, out: Path) -> None:
    """Write the folder, in place of what is there."""
    out.mkdir(parents=True, exist_ok=True)
    _write_json(out / "config.json", config(model.model.shape))
    _write_json(out / "generation_config.json", _NAMED | {"do_sample": False})
    tokens = {f"{name}_token": f"<{name}>" for name in ("bos", "eos", "pad", "unk")}
    _write_json(
        out / "tokenizer_config.json",
        tokens | {"model_max_length": LONGEST, "tokenizer_class": "PreTrainedTokenizerFast"},
    )
    (out / "tokenizer.json").write_text(tokenizer.to_str(pretty=False), "utf-8")
    state = {
        name: t.detach().to(torch.float16 if t.dim() == 2 else torch.float32).contiguous()
        for name, t in model.state_dict().items()
    }
    save_file(state, out / "model.safetensors", metadata={"format": "pt"})


def read_model(folder: Path) -> tuple[CausalModel, Tokenizer]:
    """The model in f32 with the stored (F16-rounded) weights, and its tokenizer."""
    model = CausalModel(Shape())
    state = load_file(folder / "model.safetensors")
    model.load_state_dict({name: t.float() for name, t in state.items()})
    return model.eval(), Tokenizer.from_file(str(folder / "tokenizer.json"))


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", "utf-8")
