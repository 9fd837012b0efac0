"""A folder as Gemma 4 E2B's publisher ships it, of random weights: the real names, shapes and dtypes, 10.2 GB.

Names, shapes and config are those that the tests lower; the tokenizer is their small one, whose ids are the first of
the 262,144 rows. Written piece by piece, within half a gigabyte of memory.
"""

import functools
import json
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from doppler_core.settings import Progress
from doppler_core.weights.floats import Floats, f32_to_bf16
from doppler_core.weights.safetensors import INDEX_FILE

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from chat_tokenizers import GEMMA4, write_tokenizer
from checkpoint_configs import gemma4_e2b
from e2b import SEED, e2b_shapes

SOURCE_ID = "google/gemma-4-E2B-it"
MANIFEST = SEED  # the shipped one, which that name chooses
SHARD_BYTES = 2 << 30
# A prime number of values, so that no two rows of a table are the same values.
POOL_VALUES = (1 << 24) - 3
_CLIP = 64.0  # of the towers' clipped linears: beyond what they meet, and finite, as an artifact stores it
_PIECE = 1 << 22
_TOKENS = "embed_tokens.weight"

Shapes = Mapping[str, tuple[int, ...]]
Bits = npt.NDArray[np.uint16]


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
            for piece in _values(name, shape):
                file.write(piece.data)


def _values(name: str, shape: tuple[int, ...]) -> Iterator[Bits]:
    """A tensor's bf16 bits in order: matrices keep the size of what they multiply, and so do vectors."""
    count = math.prod(shape)
    if len(shape) > 1:
        # The head is tied to the tokens' table: one as large as what layers add would repeat the last token for ever.
        yield from _normals(name, count, halvings=round(math.log2(shape[-1]) / 2) + name.endswith(_TOKENS))
    else:
        yield f32_to_bf16(np.full(count, _constant(name, count), np.float32))


def _constant(name: str, count: int) -> float:
    """Of a vector or a scalar. Norms multiply by one; those of queries and keys so that a score, the sum of `count`
    products that nothing scales, is about one: larger ones would make attention flip at every rounding."""
    if name.endswith(("_min", "_max")):
        return -_CLIP if name.endswith("_min") else _CLIP
    if name.endswith(("q_norm.weight", "k_norm.weight")):
        return float(count**-0.25)
    return 0.0 if name.endswith((".bias", ".per_dim_scale")) else 1.0


def _normals(name: str, count: int, halvings: int) -> Iterator[Bits]:
    """Normals times 2^-halvings, from a place in the pool that depends on the name."""
    pool = _pool(halvings)
    at = int.from_bytes(name.encode(), "big") % POOL_VALUES
    while count:
        piece = pool[at : at + min(count, _PIECE)]
        yield piece
        count -= piece.size
        at = (at + piece.size) % POOL_VALUES


@functools.cache
def _pool(halvings: int) -> Bits:
    """The pool as bf16 bits; there are few sizes, since a power of two is near enough."""
    return f32_to_bf16(_unit_normals() * np.float32(2.0**-halvings))


@functools.cache
def _unit_normals() -> Floats:
    return np.random.default_rng(0).standard_normal(POOL_VALUES, np.float32)
