"""The sentence-transformers layout: modules.json and the folders it names in, pooling, dense layers and prompts out.

Exactly Transformer, Pooling, any number of Dense, and optionally Normalize are understood; another module, pooling
or activation would change the vectors, so it is an error, never left out. It knows no manifest.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from doppler_core.errors import FileFormatError
from doppler_core.weights.files import field, inside, read_json, read_json_object
from doppler_core.weights.safetensors import SINGLE_FILE, read_safetensors
from doppler_core.weights.tensor import Tensor

MODULES_FILE = "modules.json"
PROMPTS_FILE = "config_sentence_transformers.json"
LENGTH_FILE = "sentence_bert_config.json"
#: Where the dense layers' tensors go in a checkpoint's table.
PROJECTIONS = "embedding_postprocessor.projections"

PoolingMode = Literal["mean", "last"]
_POOLINGS: Mapping[str, PoolingMode] = {
    "pooling_mode_mean_tokens": "mean",
    "mean": "mean",
    "pooling_mode_lasttoken": "last",
    "lasttoken": "last",
}


@dataclass(frozen=True)
class Dense:
    """One linear layer after pooling: y = x W^T (+ b), no activation."""

    weight: str
    bias: str | None
    in_features: int
    out_features: int
    activation: Literal["identity"] = "identity"


@dataclass(frozen=True)
class SentenceModules:
    """What follows the transformer, and how texts are put to it.

    include_prompt: whether the prompt's tokens count in the pooling.
    prompts: by name; default_prompt_name: the one for texts that name none.
    max_seq_length: tokens, None = as the model's config says. similarity: "cosine", "dot", ... or None.
    """

    pooling: PoolingMode
    include_prompt: bool
    dense: tuple[Dense, ...]
    normalize: bool
    prompts: Mapping[str, str]
    default_prompt_name: str | None
    max_seq_length: int | None
    similarity: str | None


@dataclass(frozen=True)
class _Module:
    kind: str
    folder: Path


def transformer_folder(folder: Path) -> Path:
    """The folder of the transformer's own files: named by modules.json where there is one."""
    path = folder / MODULES_FILE
    return _modules(folder)[0].folder if path.exists() else folder


def read_sentence_modules(folder: Path) -> tuple[SentenceModules, dict[str, Tensor]]:
    """The modules of a folder that has modules.json, and the dense layers' tensors. Raises FileFormatError."""
    transformer, pooling, *rest = _modules(folder)
    normalize = bool(rest) and rest[-1].kind == "Normalize"
    dense_folders = [module.folder for module in (rest[:-1] if normalize else rest)]
    mode, include_prompt, width = _pooling(pooling.folder / "config.json")
    dense: list[Dense] = []
    tensors: dict[str, Tensor] = {}
    for index, dense_folder in enumerate(dense_folders):
        layer, found = _dense(dense_folder, index)
        if layer.in_features != width:
            raise FileFormatError(
                f"{dense_folder / 'config.json'}: in_features is {layer.in_features}, but the module before "
                f"gives {width} values"
            )
        width = layer.out_features
        dense.append(layer)
        tensors |= found
    prompts, default, similarity = _prompts(folder / PROMPTS_FILE)
    length = _max_seq_length(transformer.folder / LENGTH_FILE)
    modules = SentenceModules(
        mode, include_prompt, tuple(dense), normalize, prompts, default, length, similarity
    )
    return modules, tensors


def _modules(folder: Path) -> list[_Module]:
    """The module list in the one order that is understood."""
    path = folder / MODULES_FILE
    records = read_json(path)
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise FileFormatError(f"{path}: expected a list of modules")
    modules = []
    for index, record in enumerate(records):
        kind = field(record, "type", str, path, f"module {index}")
        place = field(record, "path", str, path, f"module {index}")
        modules.append(_Module(_kind(kind, path), inside(folder, place, path) if place else folder))
    kinds = [module.kind for module in modules]
    tail = kinds[2:-1] if kinds[-1:] == ["Normalize"] else kinds[2:]
    if kinds[:2] != ["Transformer", "Pooling"] or any(kind != "Dense" for kind in tail):
        raise FileFormatError(
            f"{path}: expected Transformer, Pooling, Dense ..., Normalize in this order, got {', '.join(kinds)}"
        )
    return modules


def _kind(name: str, path: Path) -> str:
    package, _, kind = name.rpartition(".")
    if not package.startswith("sentence_transformers") or kind not in (
        "Transformer",
        "Pooling",
        "Dense",
        "Normalize",
    ):
        raise FileFormatError(
            f"{path}: module type {name[:100]!r} is not supported; expected sentence-transformers' Transformer, "
            "Pooling, Dense or Normalize"
        )
    return kind


def _pooling(path: Path) -> tuple[PoolingMode, bool, int]:
    config = read_json_object(path)
    modes = [key for key, on in config.items() if key.startswith("pooling_mode_") and on is True]
    if "pooling_mode" in config:
        named = config["pooling_mode"]
        modes = named if isinstance(named, list) else [named]
    if len(modes) != 1 or not isinstance(modes[0], str) or modes[0] not in _POOLINGS:
        raise FileFormatError(
            f"{path}: pooling {str(modes)[:200]} is not supported; expected mean or last token"
        )
    include = config.get("include_prompt", True)
    if not isinstance(include, bool):
        raise FileFormatError(f"{path}: `include_prompt`: expected true or false, got {str(include)[:50]}")
    names = [name for name in ("word_embedding_dimension", "embedding_dimension") if name in config]
    width = field(config, names[0] if names else "word_embedding_dimension", int, path, "pooling")
    return _POOLINGS[modes[0]], include, width


def _dense(folder: Path, index: int) -> tuple[Dense, dict[str, Tensor]]:
    path = folder / "config.json"
    if not path.exists() or not (folder / SINGLE_FILE).exists():
        raise FileFormatError(
            f"{folder}: modules.json names this dense layer, but its config.json or {SINGLE_FILE} is missing; "
            "vectors made without it would be wrong: download the publisher's folder whole"
        )
    config = read_json_object(path)
    activation = config.get("activation_function", "torch.nn.modules.activation.Tanh")
    if not isinstance(activation, str) or activation.rpartition(".")[2] != "Identity":
        raise FileFormatError(
            f"{path}: activation {str(activation)[:100]!r} is not supported; expected Identity"
        )
    for name in ("module_input_name", "module_output_name"):
        if config.get(name, "sentence_embedding") not in ("sentence_embedding", None):
            raise FileFormatError(f"{path}: `{name}`: expected 'sentence_embedding', got {config[name]!r}")
    into, out = (field(config, name, int, path, "dense") for name in ("in_features", "out_features"))
    has_bias = field(config, "bias", bool, path, "dense") if "bias" in config else True
    found = read_safetensors(folder / SINGLE_FILE)
    layer = Dense(
        f"{PROJECTIONS}.{index}.weight", f"{PROJECTIONS}.{index}.bias" if has_bias else None, into, out
    )
    tensors = {layer.weight: _shaped(found["linear.weight"], layer.weight, (out, into))}
    if layer.bias:
        tensors[layer.bias] = _shaped(found["linear.bias"], layer.bias, (out,))
    return layer, tensors


def _shaped(tensor: Tensor, name: str, shape: tuple[int, ...]) -> Tensor:
    if tensor.shape != shape:
        raise FileFormatError(
            f"{tensor.path}: tensor {tensor.name!r} has shape {list(tensor.shape)}, but config.json beside it "
            f"says {list(shape)}"
        )
    return replace(tensor, name=name)


def _prompts(path: Path) -> tuple[dict[str, str], str | None, str | None]:
    config: dict[str, Any] = read_json_object(path) if path.exists() else {}
    prompts = config.get("prompts") or {}
    if not isinstance(prompts, dict) or not all(isinstance(prompt, str) for prompt in prompts.values()):
        raise FileFormatError(f"{path}: `prompts`: expected an object from name to text")
    default = config.get("default_prompt_name")
    if default is not None and (not isinstance(default, str) or default not in prompts):
        raise FileFormatError(f"{path}: `default_prompt_name` {default!r} is none of {sorted(prompts)}")
    similarity = config.get("similarity_fn_name")
    if similarity is not None and not isinstance(similarity, str):
        raise FileFormatError(f"{path}: `similarity_fn_name`: expected a name, got {similarity!r}")
    return prompts, default, similarity


def _max_seq_length(path: Path) -> int | None:
    config: dict[str, Any] = read_json_object(path) if path.exists() else {}
    if config.get("do_lower_case"):
        raise FileFormatError(f"{path}: `do_lower_case` is not supported; expected false")
    length = config.get("max_seq_length")
    if length is not None and (not isinstance(length, int) or isinstance(length, bool) or length <= 0):
        raise FileFormatError(f"{path}: `max_seq_length`: expected a positive whole number, got {length!r}")
    return length
