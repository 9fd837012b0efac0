"""A GGUF file as a checkpoint: its tensors under their publisher's names, and the config.json that says the same.

The tokenizer is in the metadata too; text.gguf_tokenizer makes files of it.
"""

from dataclasses import dataclass
from pathlib import Path

from doppler_core.errors import FileFormatError
from doppler_core.weights.checkpoint import Checkpoint
from doppler_core.weights.files import reading
from doppler_core.weights.gguf import GgufFile
from doppler_core.weights.gguf_config import BUILDERS, config_of
from doppler_core.weights.gguf_names import published
from doppler_core.weights.gguf_parts import open_parts
from doppler_core.weights.sentence_modules import PROJECTIONS, Dense, PoolingMode, SentenceModules
from doppler_core.weights.table import TensorTable

_POOLINGS: dict[int, PoolingMode] = {1: "mean", 3: "last"}
_QUERY, _DOCUMENT = "task: search result | query: ", "title: none | text: "
# EmbeddingGemma's, which no GGUF file holds; its fine-tunes keep them.
_PROMPTS = {
    "query": _QUERY,
    "document": _DOCUMENT,
    "BitextMining": _QUERY,
    "Clustering": "task: clustering | query: ",
    "Classification": "task: classification | query: ",
    "InstructionRetrieval": "task: code retrieval | query: ",
    "MultilabelClassification": "task: classification | query: ",
    "PairClassification": "task: sentence similarity | query: ",
    "Reranking": _QUERY,
    "Retrieval": _QUERY,
    "Retrieval-query": _QUERY,
    "Retrieval-document": _DOCUMENT,
    "STS": "task: sentence similarity | query: ",
    "Summarization": "task: summarization | query: ",
}


@dataclass(frozen=True)
class GgufCheckpoint:
    """A checkpoint without tokenizer files, and the file it was read from."""

    checkpoint: Checkpoint
    file: GgufFile


@reading()
def read_gguf(path: Path | str) -> GgufCheckpoint:
    """Read a file's head (of a model in parts, all heads); the weights stay on disk. Raises FileFormatError."""
    file = open_parts(Path(path))
    architecture = file.metadata.need("general.architecture", str)
    if architecture not in BUILDERS:
        raise FileFormatError(
            f"{file.path}: general.architecture is {architecture[:50]!r}; expected one of {', '.join(BUILDERS)}"
        )
    config = config_of(file)
    tensors = published(file, architecture)
    sentence = _sentence(file, tensors) if architecture == "gemma-embedding" else None
    return GgufCheckpoint(Checkpoint(file.path, config, tensors, sentence, {}, None), file)


def _sentence(file: GgufFile, tensors: TensorTable) -> SentenceModules:
    """What follows the text stack of an embedding model: pooling, dense layers, unit length, EmbeddingGemma's prompts."""
    pooling = file.metadata.get("gemma-embedding.pooling_type", int)
    if pooling not in (None, *_POOLINGS):
        raise FileFormatError(
            f"{file.path}: gemma-embedding.pooling_type: expected 1 (mean) or 3 (last token), found {pooling}"
        )
    names = [f"{PROJECTIONS}.{index}.weight" for index in range(2)]
    missing = [
        ours for ours, theirs in zip(("dense_2", "dense_3"), names, strict=True) if theirs not in tensors
    ]
    if missing:
        raise FileFormatError(
            f"{file.path}: the dense layers after the pooling are missing ({' and '.join(missing)}): vectors made "
            "without them would be wrong; convert the publisher's folder again with llama.cpp's convert_hf_to_gguf.py "
            "--sentence-transformers-dense-modules, or open that folder itself"
        )
    dense = tuple(Dense(name, None, tensors[name].columns, tensors[name].rows) for name in names)
    return SentenceModules(
        _POOLINGS[1 if pooling is None else pooling], True, dense, True, _PROMPTS, None, None, "cosine"
    )
