"""The real EmbeddingGemma-300M: `DOPPLER_PLUGINS_REAL_MODELS=<folder> pytest -m real`, minutes and 2 GB of disk.

<folder>/embeddinggemma-300m is the publisher's folder. What is expected, tests/data/embeddinggemma_300m.npz, was
computed with transformers 5.24 in float32: 26 prompted texts (one of 833 tokens), the model card's example, and
texts that public reports of other engines are about.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from doppler_core.engine.engine import Engine
from doppler_core.settings import EngineSettings
from doppler_plugins.opening import open_engine

pytestmark = pytest.mark.real

DATA = Path(__file__).parent / "data" / "embeddinggemma_300m.npz"
DEVICES = ("numpy", "wgpu")
WINDOW_TEXT = " ".join(f"item {i} is {'red' if i % 2 else 'blue'}." for i in range(90))

# Name of a recorded vector -> the call that must give it.
CASES = {
    "q": ("What is the capital of France?", {"prompt_name": "query"}),
    "d": ("Paris is the capital of France.", {}),
    "n": ("Bananas are rich in potassium.", {}),
    "q_raw": ("What is the capital of France?", {"prompt": ""}),
    "q_asdoc": ("What is the capital of France?", {}),
    "doc_empty_strip": ("", {}),
    "q_empty_strip": ("", {"prompt_name": "query"}),
    "raw_empty": ("", {"prompt": ""}),
    "emoji": ("\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", {}),
    "nfc": ("Caf\u00e9", {}),
    "nfd": ("Cafe\u0301", {}),
    "hello": ("hello", {}),
    "Hello up": ("Hello", {}),
    "nul": ("a\x00b", {}),
    "window628": (WINDOW_TEXT, {}),
}


@pytest.fixture(scope="session")
def checkpoint() -> Path:
    return Path(os.environ["DOPPLER_PLUGINS_REAL_MODELS"]) / "embeddinggemma-300m"


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    return os.environ.get("DOPPLER_PLUGINS_CACHE_DIR") or str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def expected() -> dict[str, np.ndarray]:
    with np.load(DATA) as data:
        return dict(data)


@pytest.fixture(scope="module", params=DEVICES)
def exact(request: pytest.FixtureRequest, checkpoint: Path, cache: str) -> Iterator[Engine]:
    """The f16 manifest, which is EmbeddingGemma's default."""
    with open_engine(checkpoint, EngineSettings(device=request.param, cache_dir=cache)) as engine:
        yield engine


def embed_prompted(engine: Engine, expected: dict[str, np.ndarray]) -> np.ndarray:
    """Vectors of the recorded texts, whose prompts are part of them."""
    return np.asarray(engine.embed([str(text) for text in expected["texts"]], prompt="").vectors)


def cosines(found: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    return np.asarray((found * vectors).sum(1) / np.linalg.norm(found, axis=1))


def card(vectors: np.ndarray) -> np.ndarray:
    """The model card's example: one query, the first text, against the four documents behind it."""
    return np.asarray(vectors[1:5] @ vectors[0])


def test_f16_weights_give_the_float32_vectors(exact: Engine, expected: dict[str, np.ndarray]) -> None:
    found = embed_prompted(exact, expected)
    print(exact.device, "cosine least", cosines(found, expected["vectors"]).min(), "card", card(found))
    assert cosines(found, expected["vectors"]).min() >= 0.99999
    assert np.abs(card(found) - [0.3008, 0.6361, 0.4927, 0.4889]).max() < 5e-4


def test_the_texts_of_public_reports_have_their_vectors(
    exact: Engine, expected: dict[str, np.ndarray]
) -> None:
    known = dict(zip(expected["case_names"].tolist(), expected["case_vectors"], strict=True))
    for name, (text, options) in CASES.items():
        found = exact.embed([text], **options).vectors[0]  # type: ignore[arg-type]
        # An off-by-one window differs by 5e-4 on `window628`; f16 weights by up to 1e-4 anywhere.
        assert np.abs(found - known[name]).max() < 2e-4, name


def test_a_vector_without_its_dense_layers_would_be_noticed(
    exact: Engine, expected: dict[str, np.ndarray]
) -> None:
    known = dict(zip(expected["case_names"].tolist(), expected["case_vectors"], strict=True))
    assert float(exact.embed(["Paris is the capital of France."]).vectors[0] @ known["d_nodense"]) < 0.1


@pytest.mark.parametrize(("size", "cosine"), [(512, 0.583285), (256, 0.642372), (128, 0.674278)])
def test_cut_vectors_have_unit_length_again(exact: Engine, size: int, cosine: float) -> None:
    query = exact.embed(["What is the capital of France?"], prompt_name="query", dimensions=size).vectors[0]
    document = exact.embed(["Paris is the capital of France."], dimensions=size).vectors[0]
    assert np.linalg.norm(query) == pytest.approx(1, abs=1e-5)
    assert float(query @ document) == pytest.approx(cosine, abs=5e-4)


def test_an_image_placeholder_in_a_text_is_text(exact: Engine) -> None:
    alone = exact.embed(["ok"]).vectors[0]
    both = exact.embed(["a <image_soft_token> b", "ok"]).vectors
    assert np.isfinite(both).all()
    assert np.abs(both[1] - alone).max() < 1e-4


@pytest.mark.parametrize("device", DEVICES)
def test_q8_0_stays_close(checkpoint: Path, cache: str, expected: dict[str, np.ndarray], device: str) -> None:
    settings = EngineSettings(device=device, precision="q8_0", cache_dir=cache)
    with open_engine(checkpoint, settings) as engine:
        found = cosines(embed_prompted(engine, expected), expected["vectors"])
    print(device, "q8_0 cosine mean", found.mean(), "least", found.min())
    assert found.mean() >= 0.9995


@pytest.mark.parametrize("device", DEVICES)
def test_q4_k_keeps_the_order_of_documents(
    checkpoint: Path, cache: str, expected: dict[str, np.ndarray], device: str
) -> None:
    settings = EngineSettings(device=device, precision="q4k", cache_dir=cache)
    with open_engine(checkpoint, settings) as engine:
        vectors = embed_prompted(engine, expected)
    found = cosines(vectors, expected["vectors"])
    sentences = expected["lens"] < 100
    print(
        device, "q4k cosine mean", found.mean(), "least of sentences", found[sentences].min(), card(vectors)
    )
    assert found[sentences].mean() >= 0.985
    assert found[sentences].min() >= 0.975
    assert np.abs(card(vectors) - expected["card"]).max() < 0.03
    assert card(vectors).argmax() == expected["card"].argmax()


def test_q4_k_on_a_gpu_has_the_meaning_of_the_same_weights(
    checkpoint: Path, cache: str, expected: dict[str, np.ndarray]
) -> None:
    vectors = {}
    for device, profile in (("numpy", None), ("wgpu", "software"), ("wgpu", "packed")):
        settings = EngineSettings(device=device, precision="q4k", kernel_profile=profile, cache_dir=cache)
        with open_engine(checkpoint, settings) as engine:
            texts = [str(text) for text in expected["texts"][:8]]
            vectors[device, profile] = np.asarray(engine.embed(texts, prompt="").vectors)
    for key, found in vectors.items():
        cosine = cosines(found, vectors["numpy", None]).min()
        print(key, "against NumPy on the same weights", cosine)
        assert cosine >= 0.9999, key


def test_a_text_of_all_2048_tokens_has_one_vector_on_both_devices(checkpoint: Path, cache: str) -> None:
    """On the device with WebGPU's least limits the table is in four sections, and a full layer sees 2,048 keys."""
    text = " ".join(f"Sentence {number} follows the river to the sea." for number in range(400))
    vectors = []
    for device in DEVICES:
        with open_engine(checkpoint, EngineSettings(device=device, cache_dir=cache)) as engine:
            found = engine.embed([text], overflow="truncate")
            assert found.tokens == (2048,)
            vectors.append(found.vectors[0])
    # f16 weights on both; sums over 2,048 keys in another order.
    assert float(vectors[0] @ vectors[1]) > 0.99999
