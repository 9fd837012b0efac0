"""The checkpoint folder: the trained model as sentence-transformers files, laid out like EmbeddingGemma's.

Takes the model and its tokenizer, gives files; `read_model` gives back the model as its files say. Matrices are
stored as F16, norms as F32. Knows nothing of training.
"""

import json
from pathlib import Path
from typing import Any

import torch
from model import Encoder, Shape
from safetensors.torch import load_file, save_file
from tokenizer import SPECIAL
from tokenizers import Tokenizer
from torch import Tensor

LONGEST = 2048  # tokens of a text
MODULES = ("Transformer", "Pooling", "Dense", "Dense", "Normalize")
# Lengths a vector may be cut to: each was trained to stand alone.
WIDTHS = (128, 64, 32)
DENSE = {"2_Dense": "dense_in", "3_Dense": "dense_out"}
PROMPTS = {
    "query": "task: search result | query: ",
    "document": "title: none | text: ",
    "Retrieval-query": "task: search result | query: ",
    "Retrieval-document": "title: none | text: ",
}


def config(shape: Shape) -> dict[str, Any]:
    """config.json of the backbone."""
    kinds = ["full_attention" if shape.is_full(i) else "sliding_attention" for i in range(shape.layers)]
    return {
        "_sliding_window_pattern": shape.full_every,
        "architectures": ["Gemma3TextModel"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "attn_logit_softcapping": None,
        "bos_token_id": SPECIAL.index("<bos>"),
        "dtype": "float32",
        "eos_token_id": SPECIAL.index("<eos>"),
        "final_logit_softcapping": None,
        "head_dim": shape.head_dim,
        "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": shape.hidden,
        "initializer_range": 0.02,
        "intermediate_size": shape.intermediate,
        "layer_types": kinds,
        "matryoshka_dimensions": list(WIDTHS),
        "max_position_embeddings": LONGEST,
        "model_type": "gemma3_text",
        "num_attention_heads": shape.heads,
        "num_hidden_layers": shape.layers,
        "num_key_value_heads": shape.kv_heads,
        "pad_token_id": SPECIAL.index("<pad>"),
        "query_pre_attn_scalar": shape.head_dim,
        "rms_norm_eps": shape.eps,
        "rope_local_base_freq": shape.theta_sliding,
        "rope_scaling": None,
        "rope_theta": shape.theta_full,
        "sliding_window": shape.window,
        "use_bidirectional_attention": True,
        "use_cache": True,
        "vocab_size": shape.vocab,
    }


def tokenizer_config() -> dict[str, Any]:
    plain = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    return {
        "add_bos_token": True,
        "add_eos_token": True,
        "added_tokens_decoder": {str(i): {"content": token, **plain} for i, token in enumerate(SPECIAL)},
        "bos_token": "<bos>",
        "clean_up_tokenization_spaces": False,
        "eos_token": "<eos>",
        "model_max_length": LONGEST,
        "pad_token": "<pad>",
        "padding_side": "right",
        "spaces_between_special_tokens": False,
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": "<unk>",
    }


def dense_config(weight: Tensor) -> dict[str, Any]:
    return {
        "in_features": weight.shape[1],
        "out_features": weight.shape[0],
        "bias": False,
        "activation_function": "torch.nn.modules.linear.Identity",
    }


def write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n")


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    stored = {
        name: t.detach().to(torch.float16 if t.dim() == 2 else torch.float32) for name, t in tensors.items()
    }
    save_file({name: t.contiguous() for name, t in stored.items()}, path, metadata={"format": "pt"})


def write_checkpoint(model: Encoder, tokenizer: Tokenizer, out: Path) -> None:
    state = model.state_dict()
    write_json(out / "config.json", config(model.shape))
    write_json(out / "sentence_bert_config.json", {"max_seq_length": LONGEST, "do_lower_case": False})
    write_json(
        out / "config_sentence_transformers.json",
        {
            "model_type": "SentenceTransformer",
            "prompts": PROMPTS,
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
    )
    modules = [
        {
            "idx": i,
            "name": str(i),
            "path": f"{i}_{kind}" if i else "",
            "type": f"sentence_transformers.models.{kind}",
        }
        for i, kind in enumerate(MODULES)
    ]
    write_json(out / "modules.json", modules)
    pooling = {
        "word_embedding_dimension": model.shape.hidden,
        "pooling_mode_cls_token": False,
        "pooling_mode_mean_tokens": True,
        "pooling_mode_max_tokens": False,
        "pooling_mode_mean_sqrt_len_tokens": False,
        "pooling_mode_weightedmean_tokens": False,
        "pooling_mode_lasttoken": False,
        "include_prompt": True,
    }
    write_json(out / "1_Pooling" / "config.json", pooling)
    write_tensors(
        out / "model.safetensors", {name: t for name, t in state.items() if not name.startswith("dense")}
    )
    for folder, name in DENSE.items():
        weight = state[f"{name}.weight"]
        write_json(out / folder / "config.json", dense_config(weight))
        write_tensors(out / folder / "model.safetensors", {"linear.weight": weight})
    (out / "tokenizer.json").write_text(tokenizer.to_str(pretty=False))
    write_json(out / "tokenizer_config.json", tokenizer_config())
    write_json(out / "special_tokens_map.json", {f"{token.strip('<>')}_token": token for token in SPECIAL})


def read_model(folder: Path) -> tuple[Encoder, Tokenizer]:
    """The model in f32 with the stored (F16-rounded) weights, and its tokenizer."""
    model = Encoder(Shape())
    state = load_file(folder / "model.safetensors")
    for sub, name in DENSE.items():
        state[f"{name}.weight"] = load_file(folder / sub / "model.safetensors")["linear.weight"]
    model.load_state_dict({name: t.float() for name, t in state.items()})
    return model.eval(), Tokenizer.from_file(str(folder / "tokenizer.json"))
