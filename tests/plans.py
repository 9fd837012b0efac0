"""EmbeddingGemma-300M's plan without its weights: the names and shapes of its tensors, stored as a manifest says."""

import copy
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from checkpoint_configs import embeddinggemma, embeddinggemma_modules

from doppler_core.manifest.catalog import shipped_manifest
from doppler_core.manifest.json_text import parse_object, read_text
from doppler_core.manifest.load import load_manifest, manifest_json
from doppler_core.manifest.model import Manifest
from doppler_core.manifest.resolve import resolve
from doppler_core.plan.check import check
from doppler_core.plan.op import Plan
from doppler_core.plan.room import Room
from doppler_core.weights.policy import storage_types
from doppler_core.weights.tensor import Tensor
from doppler_plugins.model_types.embedding import EmbeddingModelType

SEED = "google-embeddinggemma-300m-q4k-ehf16-af32"
HIDDEN, INNER, HEADS, WIDTH, LAYERS, VOCABULARY = 768, 1152, 3, 256, 24, 262_144


def embeddinggemma_shapes() -> dict[str, tuple[int, ...]]:
    """Tensor names and shapes of the publisher's files."""
    shapes: dict[str, tuple[int, ...]] = {
        "embed_tokens.weight": (VOCABULARY, HIDDEN),
        "norm.weight": (HIDDEN,),
    }
    for layer in range(LAYERS):
        block: dict[str, tuple[int, ...]] = {
            "input_layernorm": (HIDDEN,),
            "post_attention_layernorm": (HIDDEN,),
            "pre_feedforward_layernorm": (HIDDEN,),
            "post_feedforward_layernorm": (HIDDEN,),
            "self_attn.q_proj": (HEADS * WIDTH, HIDDEN),
            "self_attn.k_proj": (WIDTH, HIDDEN),
            "self_attn.v_proj": (WIDTH, HIDDEN),
            "self_attn.o_proj": (HIDDEN, HEADS * WIDTH),
            "self_attn.q_norm": (WIDTH,),
            "self_attn.k_norm": (WIDTH,),
            "mlp.gate_proj": (INNER, HIDDEN),
            "mlp.up_proj": (INNER, HIDDEN),
            "mlp.down_proj": (HIDDEN, INNER),
        }
        shapes |= {f"layers.{layer}.{name}.weight": shape for name, shape in block.items()}
    shapes["embedding_postprocessor.projections.0.weight"] = (3072, HIDDEN)
    shapes["embedding_postprocessor.projections.1.weight"] = (HIDDEN, 3072)
    return shapes


def stored(manifest: Manifest, shapes: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Tensors without data, in the types that conversion with this manifest stores."""
    empty = np.zeros(0, np.uint8)
    source = {name: Tensor(name, shape, "f32", empty, Path("model")) for name, shape in shapes.items()}
    types = storage_types(manifest_json(manifest)["quantization"], source)
    return {name: dataclasses.replace(tensor, dtype=types[name]) for name, tensor in source.items()}


def resolved(name: str = SEED, change: Callable[[dict[str, Any]], None] | None = None) -> Manifest:
    """A shipped manifest, changed if asked to, resolved from EmbeddingGemma's files."""
    path = shipped_manifest(name)
    data = copy.deepcopy(parse_object(read_text(path), str(path)))
    if change is not None:
        change(data)
    return resolve(load_manifest(data), embeddinggemma(), embeddinggemma_modules()).manifest


def lowered(
    name: str = SEED,
    change: Callable[[dict[str, Any]], None] | None = None,
    shapes: dict[str, tuple[int, ...]] | None = None,
) -> Plan:
    """Its plan, checked."""
    manifest = resolved(name, change)
    tensors = stored(manifest, shapes or embeddinggemma_shapes())
    return check(EmbeddingModelType().lower(manifest, tensors, Room(2048, 4, 1024)))
