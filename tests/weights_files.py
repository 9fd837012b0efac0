"""Weight files for tests: safetensors bytes, and a small sentence-transformers checkpoint folder."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

DTYPES = {"float32": "F32", "float16": "F16", "int64": "I64", "uint16": "BF16"}


def header_and_data(tensors: Mapping[str, np.ndarray]) -> tuple[dict[str, Any], bytes]:
    """The header object and the data of a safetensors file; uint16 arrays are taken as BF16 bits."""
    header: dict[str, Any] = {}
    data = b""
    for name, values in tensors.items():
        raw = values.tobytes()
        header[name] = {
            "dtype": DTYPES[values.dtype.name],
            "shape": list(values.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    return header, data


def file_bytes(header: object, data: bytes) -> bytes:
    """A safetensors file of any header, right or wrong."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def write_safetensors(path: Path, tensors: Mapping[str, np.ndarray]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file_bytes(*header_and_data(tensors)))
    return path


HIDDEN, WIDE, VOCABULARY = 96, 160, 50


def backbone(layers: int = 2) -> dict[str, np.ndarray]:
    """The tensors of a tiny EmbeddingGemma, large enough that its matmuls count as such (1,024 values)."""
    random = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) * 0.05).astype(np.float32)

    tensors = {"embed_tokens.weight": normal(VOCABULARY, HIDDEN), "norm.weight": normal(HIDDEN)}
    for layer in range(layers):
        name = f"layers.{layer}"
        tensors[f"{name}.input_layernorm.weight"] = normal(HIDDEN)
        tensors[f"{name}.self_attn.q_norm.weight"] = normal(32)
        tensors[f"{name}.self_attn.q_proj.weight"] = normal(HIDDEN, HIDDEN)
        tensors[f"{name}.mlp.down_proj.weight"] = normal(HIDDEN, 300)
    return tensors


def write_checkpoint(folder: Path, tensors: Mapping[str, np.ndarray] | None = None) -> Path:
    """A sentence-transformers folder in the layout of EmbeddingGemma's."""
    random = np.random.default_rng(1)
    write_safetensors(folder / "model.safetensors", backbone() if tensors is None else tensors)
    sizes = [(HIDDEN, WIDE), (WIDE, HIDDEN)]
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    for index, (into, out) in enumerate(sizes):
        name = f"{index + 2}_Dense"
        modules.append((name, "Dense"))
        weight = random.standard_normal((out, into)).astype(np.float32)
        write_safetensors(folder / name / "model.safetensors", {"linear.weight": weight})
        write_json(
            folder / name / "config.json",
            {
                "in_features": into,
                "out_features": out,
                "bias": False,
                "activation_function": "torch.nn.modules.linear.Identity",
            },
        )
    modules.append(("4_Normalize", "Normalize"))
    write_json(
        folder / "modules.json",
        [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (path, kind) in enumerate(modules)
        ],
    )
    write_json(
        folder / "1_Pooling" / "config.json",
        {
            "word_embedding_dimension": HIDDEN,
            "pooling_mode_cls_token": False,
            "pooling_mode_mean_tokens": True,
        },
    )
    write_json(
        folder / "config_sentence_transformers.json",
        {
            "prompts": {"query": "q: ", "document": "d: "},
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
    )
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 64, "do_lower_case": False})
    write_json(
        folder / "config.json",
        {"architectures": ["Gemma3TextModel"], "hidden_size": HIDDEN, "use_bidirectional_attention": True},
    )
    write_json(folder / "tokenizer.json", {"version": "1.0"})
    return folder


def write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def change_json(path: Path, **fields: Any) -> None:
    """Set fields of a JSON object in a file; a field set to ... is taken out."""
    value = json.loads(path.read_text()) | fields
    write_json(path, {name: field for name, field in value.items() if field is not ...})
