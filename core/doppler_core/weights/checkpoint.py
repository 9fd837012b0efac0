"""A publisher's Hugging Face folder: config, tensors, tokenizer files and, for embedding models, the modules after it.

Tensor names stay the publisher's; the dense layers of a sentence-transformers folder join the table as
`embedding_postprocessor.projections.N.weight`. It knows no manifest.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from doppler_core.errors import FileFormatError, ModelNotFoundError
from doppler_core.weights.files import read_json_object, reading
from doppler_core.weights.safetensors import read_folder
from doppler_core.weights.sentence_modules import (
    MODULES_FILE,
    SentenceModules,
    read_sentence_modules,
    transformer_folder,
)
from doppler_core.weights.table import TensorTable

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "generation_config.json",
)

_CARD_BYTES = 1 << 20
# How a model card shows its model being loaded.
_LOADED = re.compile(r"""(?:SentenceTransformer|from_pretrained)\(\s*["']([\w.-]+/[\w.-]+)["']""")
_ID = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True)
class Checkpoint:
    """A folder as its publisher ships it.

    sentence: None for a folder without modules.json.
    tokenizer_files: those of TOKENIZER_FILES that exist, by name.
    source_id: `org/name` on the hub, as far as the folder tells; None if it does not.
    """

    path: Path
    config: Mapping[str, Any]
    tensors: TensorTable
    sentence: SentenceModules | None
    tokenizer_files: Mapping[str, Path]
    source_id: str | None


@reading()
def read_checkpoint(folder: Path | str) -> Checkpoint:
    """Read a folder's headers and settings; the weights themselves stay on disk.

    Raises ModelNotFoundError where there is no checkpoint, FileFormatError where a file is wrong or missing.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ModelNotFoundError(f"{folder}: expected a folder with config.json and safetensors files")
    root = transformer_folder(folder)
    if not (root / "config.json").exists():
        raise ModelNotFoundError(f"{root}: expected a Hugging Face folder, but it has no config.json")
    config = read_json_object(root / "config.json")
    tensors = read_folder(root)
    sentence = None
    if (folder / MODULES_FILE).exists():
        sentence, dense = read_sentence_modules(folder)
        tensors.update(dense)
    elif config.get("use_bidirectional_attention") is True:
        raise FileFormatError(
            f"{folder}: config.json describes an embedding model (use_bidirectional_attention), but {MODULES_FILE} "
            "with its pooling and dense layers is missing; download the publisher's folder whole"
        )
    tokenizer_files = {name: root / name for name in TOKENIZER_FILES if (root / name).is_file()}
    return Checkpoint(folder, config, tensors, sentence, tokenizer_files, _source_id(folder, config))


def _source_id(folder: Path, config: Mapping[str, Any]) -> str | None:
    """Where the folder comes from: the hub cache's folder name, the card's own example, config's `_name_or_path`."""
    for part in folder.absolute().parts:
        if part.startswith("models--") and part.count("--") == 2:
            return part.removeprefix("models--").replace("--", "/")
    card = folder / "README.md"
    if card.is_file():
        with card.open(encoding="utf-8", errors="replace") as file:
            loaded: set[str] = set(_LOADED.findall(file.read(_CARD_BYTES)))
        if len(loaded) == 1:
            return loaded.pop()
    name = config.get("_name_or_path")
    return name if isinstance(name, str) and _ID.fullmatch(name) else None
