"""What an engine runs a model from, whatever kind of file that lies in: an artifact, or a GGUF file where it is."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from doppler_core.weights.table import TensorTable


@dataclass(frozen=True)
class ModelFiles:
    """A model's files, open.

    manifest: resolved, as JSON. tokenizer_files: by the names they have in a checkpoint.
    identity: a hash over all that can change a result.
    """

    path: Path
    manifest: Mapping[str, Any]
    tensors: TensorTable
    tokenizer_files: Mapping[str, Path]
    identity: str
