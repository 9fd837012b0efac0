"""The config.json that says what a GGUF file's metadata say: metadata and tensor names in, a Hugging Face config out.

What the metadata leave out is the architecture's own: the sliding layers' rotation, the pattern of the layers, the
activation. Norms: llama.cpp's converter adds Gemma 3's 1 to their weights, which `rms_norm_weight_offset` says.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from doppler_core.errors import FileFormatError
from doppler_core.weights.gguf import GgufFile
from doppler_core.weights.gguf_metadata import Metadata
from doppler_core.weights.gguf_names import HEAD, ROPE_FREQS
from doppler_core.weights.storage import to_f32

Config = dict[str, Any]

_PATTERN = 6  # Gemma 3: every sixth layer is full
_LOCAL_THETA = 10000.0
_FULL, _SLIDING = "full_attention", "sliding_attention"
_MAX_LAYERS = 10_000
# Gemma 3 27B, told by its layers, scales scores by hidden_size / heads; all others by the width of a head.
_LAYERS_27B = 62


def config_of(file: GgufFile) -> Config:
    """The config of a file whose general.architecture is one of BUILDERS. Raises FileFormatError."""
    return BUILDERS[file.metadata.need("general.architecture", str)](file)


def _gemma3(file: GgufFile) -> Config:
    config = {"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", **_gemma3_stack(file)}
    return {**config, "tie_word_embeddings": HEAD not in file.tensors, "use_bidirectional_attention": False}


def _embedding(file: GgufFile) -> Config:
    config = {"architectures": ["Gemma3TextModel"], "model_type": "gemma3_text", **_gemma3_stack(file)}
    return {**config, "use_bidirectional_attention": True}


def _gemma4(file: GgufFile) -> Config:
    metadata, text = file.metadata, _stack(file)
    layers, types = text["num_hidden_layers"], _types(metadata)
    if types is None:
        raise FileFormatError(
            f"{file.path}: gemma4.attention.sliding_window_pattern is missing: which layers attend fully is not known"
        )
    widths = _per_layer(metadata, "feed_forward_length", layers)
    pairs = _per_layer(metadata, "attention.head_count_kv", layers)
    by_type = {kind: pairs[layer] for layer, kind in enumerate(types)}
    local_pairs = by_type.get(_SLIDING, pairs[0])
    shared = _whole(metadata, "attention.shared_kv_layers") or 0
    per_layer = _whole(metadata, "embedding_length_per_layer_input") or 0
    experts = _whole(metadata, "expert_count") or 0
    owners = [layer for layer, kind in enumerate(types[: layers - shared]) if kind == _FULL]
    text |= {
        "model_type": "gemma4_text",
        "intermediate_size": widths[0],
        "use_double_wide_mlp": widths[-1] == 2 * widths[0],
        "num_key_value_heads": local_pairs,
        "num_global_key_value_heads": None if by_type.get(_FULL) == local_pairs else by_type.get(_FULL),
        "head_dim": _need(metadata, "attention.key_length_swa"),
        "global_head_dim": _need(metadata, "attention.key_length"),
        "attention_k_eq_v": any(f"blk.{layer}.attn_v.weight" not in file.tensors for layer in owners),
        "num_kv_shared_layers": shared,
        "hidden_size_per_layer_input": per_layer,
        "layer_types": types,
        "rope_parameters": {
            _FULL: {
                "rope_type": "proportional",
                "rope_theta": _rope_theta(metadata),
                "partial_rotary_factor": _partial_rotary_factor(file),
            },
            _SLIDING: {"rope_type": "default", "rope_theta": _local_theta(metadata)},
        },
        "enable_moe_block": experts > 0,
        "tie_word_embeddings": HEAD not in file.tensors,
    }
    if per_layer:
        text["vocab_size_per_layer_input"] = file.tensors["per_layer_token_embd.weight"].rows
    if experts:
        text |= {
            "num_experts": experts,
            "top_k_experts": _need(metadata, "expert_used_count"),
            "moe_intermediate_size": _need(metadata, "expert_feed_forward_length"),
        }
    return {
        "architectures": ["Gemma4ForConditionalGeneration"],
        "model_type": "gemma4",
        "text_config": text,
        "tie_word_embeddings": text["tie_word_embeddings"],
    }


#: The architectures that are read, by general.architecture.
BUILDERS: Mapping[str, Callable[[GgufFile], Config]] = {
    "gemma3": _gemma3,
    "gemma-embedding": _embedding,
    "gemma4": _gemma4,
}


def _stack(file: GgufFile) -> Config:
    """What both generations say alike."""
    metadata = file.metadata
    cap = metadata.get(_key(metadata, "final_logit_softcapping"), float)
    return {
        "vocab_size": file.tensors["token_embd.weight"].rows,
        "hidden_size": _need(metadata, "embedding_length"),
        "num_hidden_layers": _layers(metadata),
        "num_attention_heads": _need(metadata, "attention.head_count"),
        "max_position_embeddings": _need(metadata, "context_length"),
        "sliding_window": _need(metadata, "attention.sliding_window"),
        "rms_norm_eps": metadata.need(_key(metadata, "attention.layer_norm_rms_epsilon"), float),
        "final_logit_softcapping": cap or None,
        "hidden_activation": "gelu_pytorch_tanh",
        "attention_bias": False,
    }


def _gemma3_stack(file: GgufFile) -> Config:
    metadata, text = file.metadata, _stack(file)
    layers, width = text["num_hidden_layers"], _need(metadata, "attention.key_length")
    scale = metadata.get(_key(metadata, "attention.scale"), float)
    if scale is not None and scale <= 0:
        raise FileFormatError(
            f"{file.path}: {_key(metadata, 'attention.scale')}: expected more than 0, found {scale}"
        )
    if scale is not None:
        scalar = round(scale**-2, 3)
    else:
        scalar = text["hidden_size"] // text["num_attention_heads"] if layers == _LAYERS_27B else width
    kind = metadata.get(_key(metadata, "rope.scaling.type"), str)
    factor = metadata.get(_key(metadata, "rope.scaling.factor"), float)
    return text | {
        "intermediate_size": _need(metadata, "feed_forward_length"),
        "num_key_value_heads": _need(metadata, "attention.head_count_kv"),
        "head_dim": width,
        "query_pre_attn_scalar": scalar,
        "attn_logit_softcapping": None,
        "layer_types": _types(metadata)
        or [_SLIDING if (layer + 1) % _PATTERN else _FULL for layer in range(layers)],
        "rope_theta": _rope_theta(metadata),
        "rope_local_base_freq": _local_theta(metadata),
        "rope_scaling": None if kind in (None, "none") else {"rope_type": kind, "factor": factor},
        "rms_norm_weight_offset": False,
    }


def _key(metadata: Metadata, name: str) -> str:
    return f"{metadata.need('general.architecture', str)}.{name}"


def _whole(metadata: Metadata, name: str) -> int | None:
    return metadata.get(_key(metadata, name), int)


def _need(metadata: Metadata, name: str) -> int:
    value = metadata.need(_key(metadata, name), int)
    if value < 1:
        raise FileFormatError(f"{metadata.path}: {_key(metadata, name)}: expected a size, found {value}")
    return value


def _layers(metadata: Metadata) -> int:
    layers = _need(metadata, "block_count")
    if layers > _MAX_LAYERS:
        raise FileFormatError(
            f"{metadata.path}: {_key(metadata, 'block_count')}: {layers} layers, more than {_MAX_LAYERS}"
        )
    return layers


def _rope_theta(metadata: Metadata) -> float:
    return metadata.need(_key(metadata, "rope.freq_base"), float)


def _local_theta(metadata: Metadata) -> float:
    return metadata.get(_key(metadata, "rope.freq_base_swa"), float) or _LOCAL_THETA


def _per_layer(metadata: Metadata, name: str, layers: int) -> list[int]:
    """A number for each layer, which the file gives as one for all or as a list."""
    key = _key(metadata, name)
    if not isinstance(metadata.values.get(key), np.ndarray):
        return [_need(metadata, name)] * layers
    values = metadata.need(key, np.ndarray)
    if values.dtype.kind not in "iu" or len(values) != layers or values.min() < 1:
        raise FileFormatError(
            f"{metadata.path}: {key}: expected a size for each of {layers} layers, found {values[:20]}"
        )
    return [int(value) for value in values]


def _types(metadata: Metadata) -> list[str] | None:
    """The type of each layer; None where the file does not say."""
    key, layers = _key(metadata, "attention.sliding_window_pattern"), _layers(metadata)
    if key not in metadata.values:
        return None
    pattern = metadata.need(key, np.ndarray)
    if pattern.dtype != bool or len(pattern) != layers:
        raise FileFormatError(
            f"{metadata.path}: {key}: expected a bool for each of {layers} layers, found {len(pattern)} of "
            f"{pattern.dtype}"
        )
    return [_SLIDING if sliding else _FULL for sliding in pattern]


def _partial_rotary_factor(file: GgufFile) -> float:
    """The part of a full layer's head that rotates: llama.cpp divides the frequencies of the rest to nothing."""
    factors = to_f32(file.tensors[ROPE_FREQS]).reshape(-1)
    count = int((factors == 1).sum())
    if not count or not ((factors[:count] == 1).all() and (factors[count:] > 1e20).all()):
        raise FileFormatError(
            f"{file.path}: {ROPE_FREQS}: expected ones and then numbers beyond 1e20 (proportional rotation), found "
            f"{factors[:8]}"
        )
    return count / len(factors)
