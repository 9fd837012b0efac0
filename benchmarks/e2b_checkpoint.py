"""A folder as Gemma 4 E2B's publisher ships it, of random weights: the real names, shapes and dtypes, 10.2 GB.

Names, shapes and config are those that the tests lower; the tokenizer is their small one, whose ids are the first of
the 262,144 rows. Written piece by piece, within half a gigabyte of memory.
"""

import json
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from random_weights import bf16

from doppler_core.settings import Progress
from doppler_core.weights.safetensors import INDEX_FILE

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from chat_tokenizers import GEMMA4, write_tokenizer
from checkpoint_configs import gemma4_e2b
from e2b import SEED, e2b_shapes

SOURCE_ID = "google/gemma-4-E2B-it"
MANIFEST = SEED  # the shipped one, which that name chooses
SHARD_BYTES = 2 << 30

Shapes = Mapping[str, tuple[int, ...]]


def checkpoint_bytes(shapes: Shapes | None = None) -> int:
    """Bytes of the tensors, all of them bf16. shapes: None = E2B's own."""
    return sum(2 * math.prod(shape) for shape in (shapes or e2b_shapes()).values())


def is_whole(folder: Path) -> bool:
    """Whether a checkpoint was written there to its end."""
    return (folder / INDEX_FILE).is_file()


def write_checkpoint(folder: Path, shapes: Shapes | None = None, progress: Progress | None = None) -> int:
    """Fill `folder`, its index last; gives the bytes of the tensors. shapes: None = E2B's own."""
    shapes = e2b_shapes() if shapes is None else shapes
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(gemma4_e2b() | {"_name_or_path": SOURCE_ID}), "utf-8")
    write_tokenizer(folder, GEMMA4)
    shards = list(_shards(shapes))
    placed: dict[str, str] = {}
    done, total = 0, checkpoint_bytes(shapes)
    for number, names in enumerate(shards, 1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors"
        _write_shard(folder / file, {name: shapes[name] for name in names})
        placed |= dict.fromkeys(names, file)
        done += checkpoint_bytes({name: shapes[name] for name in names})
        if progress:
            progress("writing the checkpoint", done, total)
    index = {"metadata": {"total_size": total}, "weight_map": placed}
    (folder / INDEX_FILE).write_text(json.dumps(index), "utf-8")
    return total


def _shards(shapes: Shapes) -> Iterator[list[str]]:
    """Names, shard by shard; a tensor that is larger than a shard has one of its own."""
    names: list[str] = []
    size = 0
    for name, shape in shapes.items():
        own = 2 * math.prod(shape)
        if names and size + own > SHARD_BYTES:
            yield names
            names, size = [], 0
        names.append(name)
        size += own
    yield names


def _write_shard(path: Path, shapes: Shapes) -> None:
    header, end = {}, 0
    for name, shape in shapes.items():
        start, end = end, end + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, shape in shapes.items():
            for piece in bf16(name, shape):
                file.write(piece.data)
