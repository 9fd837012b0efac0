"""DiffusionGemma 26B-A4B as `convert` leaves it, of random weights: the real names, shapes and types, 15.7 GB.

The publisher's 52 GB are not written: the checkpoint is made in memory, its matrices as Q4_K blocks already, which
`convert` takes over as they are (to pack 25 billion values would take over an hour); all else it stores as ever. Blocks and
values are tiles of one random buffer, so that writing takes no longer than the disk does.

Names, shapes and config are those that the tests lower; the tokenizer is their small one, whose ids are the first of
the 262,144 rows.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from random_weights import bf16, q4_k_blocks

from doppler_core.manifest.load import manifest_json
from doppler_core.manifest.model import Manifest
from doppler_core.settings import EngineSettings, Progress
from doppler_core.weights.artifact_format import ArtifactInfo, aligned
from doppler_core.weights.checkpoint import Checkpoint
from doppler_core.weights.convert import convert
from doppler_core.weights.policy import selected, storage_types
from doppler_core.weights.table import TensorTable
from doppler_core.weights.tensor import StorageType, Tensor, tensor_bytes
from doppler_plugins.conversion import resolve_checkpoint

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from chat_tokenizers import GEMMA4, write_tokenizer
from checkpoint_configs import diffusiongemma
from diffusion26b import SEED, diffusion_manifest, diffusion_shapes
from diffusion_golden import checkpoint

MANIFEST = SEED  # the shipped one
_FILE = Path("model.safetensors")  # which is never written
_TINY = "diffusion_wide"  # of the tests' golden models the one with rows of whole and of broken blocks


@dataclass(frozen=True)
class Model:
    """What is known of a model without its weights.

    source_id: `org/name`. manifest: resolved. shapes: of the publisher's tensors, which are bf16.
    """

    source_id: str | None
    config: Mapping[str, Any]
    manifest: Manifest
    shapes: Mapping[str, tuple[int, ...]]


def full_size() -> Model:
    """DiffusionGemma 26B-A4B."""
    return Model(
        "google/diffusiongemma-26B-A4B-it", diffusiongemma(), diffusion_manifest(), diffusion_shapes()
    )


def tiny() -> Model:
    """One of three layers of eight experts each: for a look at the benchmark itself."""
    with TemporaryDirectory() as folder:
        found = resolve_checkpoint(checkpoint(_TINY, Path(folder)), EngineSettings(precision="q4k"))
        shapes = {name: tensor.shape for name, tensor in found.checkpoint.tensors.items()}
        return Model(found.checkpoint.source_id, found.checkpoint.config, found.manifest, shapes)


def artifact_bytes(model: Model) -> int:
    """Bytes of the tensors as `convert` lays them, at most."""
    return sum(aligned(tensor_bytes(dtype, model.shapes[name])) for name, dtype in _types(model).items())


def write_artifact(model: Model, folder: Path, progress: Progress | None = None) -> ArtifactInfo:
    """Convert the model, of random weights, to a new folder. The full size takes 2 GB of memory."""
    tensors = {name: _tensor(name, model.shapes[name], dtype) for name, dtype in _types(model).items()}
    with TemporaryDirectory() as place:
        tokenizer = write_tokenizer(Path(place), GEMMA4)
        made = Checkpoint(
            path=folder,
            config=model.config,
            tensors=TensorTable(tensors, {}, folder),
            sentence=None,
            tokenizer_files={tokenizer.name: tokenizer},
            source_id=model.source_id,
        )
        return convert(made, manifest_json(model.manifest), folder, progress=progress).info


def _types(model: Model) -> dict[str, StorageType]:
    """The type that `convert` stores each tensor in that it keeps."""
    data = manifest_json(model.manifest)
    empty = np.zeros(0, np.uint8)
    tensors = {name: Tensor(name, shape, "bf16", empty, _FILE) for name, shape in model.shapes.items()}
    return storage_types(data["quantization"], selected(tensors, data["output"].get("textOnly") is True))


def _tensor(name: str, shape: tuple[int, ...], dtype: StorageType) -> Tensor:
    """A tensor with values: packed already where `convert` would pack it, else the publisher's."""
    if dtype == "q4_k":
        return Tensor(name, shape, dtype, q4_k_blocks(name, shape), _FILE)
    return Tensor(name, shape, "bf16", np.concatenate(list(bf16(name, shape))).view(np.uint8), _FILE)
