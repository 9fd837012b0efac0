"""Which tensors an artifact keeps, and in which storage type: tensor names and shapes in, types out.

The manifest's `quantization` gives one type per role; norms, routers, biases, vectors and tensors under 1,024 values
are never quantised. It knows the publishers' naming, and no manifest beyond that section.
"""

import re
from collections.abc import Mapping
from math import prod
from typing import Any, Literal

from doppler_core.errors import ManifestError
from doppler_core.weights.tensor import StorageType, Tensor

Role = Literal[
    "matmul", "embedding", "lm_head", "norm", "router", "bias", "expert", "vision", "audio", "projector"
]

# The first that matches counts. The dense layers after an embedding model are its head.
_NAMES: tuple[tuple[Role, re.Pattern[str]], ...] = (
    ("vision", re.compile(r"(^|\.)vision_(tower|model)\.")),
    ("audio", re.compile(r"(^|\.)audio_(tower|model)\.")),
    ("projector", re.compile(r"(^|\.)(embed_vision|embed_audio|multi_modal_projector)\.")),
    ("norm", re.compile(r"norm\w*\.(weight|bias)$")),
    ("bias", re.compile(r"[._]bias$")),
    ("lm_head", re.compile(r"^lm_head\.|^embedding_postprocessor\.")),
    ("embedding", re.compile(r"(^|\.)embed_tokens(_per_layer)?\.weight$")),
    ("router", re.compile(r"\.router\.|\.(mlp|block_sparse_moe)\.gate\.")),
    ("expert", re.compile(r"\.experts\.")),
)
_FIELDS: Mapping[Role, str] = {
    "embedding": "embeddings",
    "lm_head": "lmHead",
    "vision": "vision",
    "audio": "audio",
    "projector": "projector",
}
_TYPES: Mapping[str, StorageType] = {
    "f32": "f32",
    "f16": "f16",
    "bf16": "bf16",
    "q8_0": "q8_0",
    "q4k": "q4_k",
}
_QUANTIZED = ("q8_0", "q4_k")
_TOWERS = ("vision", "audio", "projector")
_LANGUAGE = ("language_model.", "model.language_model.")
_HEADS = ("lm_head.", "embedding_postprocessor.")
_SMALL = 1024


def role(name: str) -> Role:
    """What a tensor is for, by the publisher's name of it."""
    return next((role for role, pattern in _NAMES if pattern.search(name)), "matmul")


def selected(tensors: Mapping[str, Tensor], text_only: bool) -> dict[str, Tensor]:
    """The tensors to convert: all, or with `output.textOnly` those of the language model and its head."""
    if not text_only:
        return dict(tensors)
    if any(name.startswith(_LANGUAGE) for name in tensors):
        return {name: t for name, t in tensors.items() if name.startswith((*_LANGUAGE, *_HEADS))}
    return {name: t for name, t in tensors.items() if role(name) not in _TOWERS}


def storage_types(quantization: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, StorageType]:
    """The type each tensor is stored in, from a manifest's `quantization` section. Raises ManifestError."""
    return {name: _storage_type(quantization, name, tensor) for name, tensor in tensors.items()}


def _storage_type(quantization: Mapping[str, Any], name: str, tensor: Tensor) -> StorageType:
    kind = role(name)
    wanted = _wanted(quantization, kind, tensor.dtype)
    exact = len(tensor.shape) < 2 or prod(tensor.shape) < _SMALL or kind in ("norm", "bias", "router")
    if not exact or (kind in _TOWERS and wanted not in _QUANTIZED):
        return wanted
    return "f32" if wanted == "f32" else _unquantized(tensor.dtype)


def _unquantized(source: StorageType) -> StorageType:
    """What never goes below 16 bits: f32 as the publisher has it, else f16, which kernels read."""
    return "f32" if source == "f32" else "f16"


def _wanted(quantization: Mapping[str, Any], kind: Role, source: StorageType) -> StorageType:
    """The section's type for a role: null means the source's type, for the head the embeddings', for towers f16."""
    name = _FIELDS.get(kind, "weights")
    value = quantization.get(name)
    if value is None and kind == "lm_head":
        name, value = "embeddings", quantization.get("embeddings")
    if value is None:
        return "f16" if kind in _TOWERS else source
    if value not in _TYPES:
        raise ManifestError(
            f"quantization.{name}: {value!r} can't be written; expected one of {sorted(_TYPES)}"
        )
    return _TYPES[value]
