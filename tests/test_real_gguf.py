"""The real Gemma 3 270M as a GGUF file: `DOPPLER_PLUGINS_REAL_MODELS=<folder> pytest -m real`, a minute.

<folder>/gemma-3-270m-q4_k_m.gguf, and <folder>/embeddinggemma-300m with the publisher's tokenizer of the same
vocabulary.
"""

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader, quants
from test_text_gguf import CORPUS

from doppler_core.text.gguf_tokenizer import tokenizer_files
from doppler_core.text.tokenizer import Tokenizer
from doppler_core.weights.gguf import open_gguf
from doppler_core.weights.gguf_checkpoint import read_gguf
from doppler_core.weights.storage import to_f32

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def models() -> Path:
    return Path(os.environ["DOPPLER_PLUGINS_REAL_MODELS"])


@pytest.fixture(scope="module")
def file(models: Path) -> Path:
    return models / "gemma-3-270m-q4_k_m.gguf"


def test_the_file_opens_in_well_under_a_second(file: Path) -> None:
    start = time.perf_counter()
    open_gguf(file)
    assert time.perf_counter() - start < 0.5


def test_every_tensor_reads_as_in_the_gguf_package(file: Path) -> None:
    found = open_gguf(file).tensors
    for theirs in GGUFReader(file).tensors:
        rows = slice(0, 4096)  # all rows but those of the token table
        expected = quants.dequantize(theirs.data[rows], theirs.tensor_type)
        tensor = found[theirs.name]
        assert np.array_equal(to_f32(tensor, 0, min(tensor.rows, 4096)).reshape(expected.shape), expected)


def test_the_config_is_that_of_the_270m(file: Path) -> None:
    config = read_gguf(file).checkpoint.config
    assert (config["hidden_size"], config["num_hidden_layers"], config["head_dim"]) == (640, 18, 256)
    assert (config["query_pre_attn_scalar"], config["sliding_window"]) == (256, 512)
    full = [layer for layer, kind in enumerate(config["layer_types"]) if kind == "full_attention"]
    assert full == [5, 11, 17]


def test_the_tokenizer_is_the_publishers(file: Path, models: Path, tmp_path: Path) -> None:
    """Equal merges and vocabulary; the ids, but for the end token that only the embedding model adds."""
    published = models / "embeddinggemma-300m" / "tokenizer.json"
    made = tokenizer_files(open_gguf(file).metadata, tmp_path)["tokenizer.json"]
    ours, theirs = (json.loads(path.read_text("utf-8"))["model"] for path in (made, published))
    assert {**ours, "merges": [merge.split(" ") for merge in ours["merges"]]} == theirs
    mine, their = Tokenizer(made, 262144), Tokenizer(published, 262145)
    readme = (models / "embeddinggemma-300m" / "README.md").read_text("utf-8")
    vocabulary = [token for token in theirs["vocab"] if token.strip()]
    texts = [*CORPUS, readme, *("".join(vocabulary[start::997]) for start in range(200))]
    expected = [ids[:-1] for ids in their.encode_batch(texts)]
    assert mine.encode_batch(texts) == expected
