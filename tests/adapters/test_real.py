"""The real EmbeddingGemma-300M through both frameworks: `DOPPLER_PLUGINS_REAL_MODELS=<folder> pytest -m real`.

<folder>/embeddinggemma-300m is the publisher's folder. The similarities were computed with sentence-transformers in
float32; the first four are those of the model card.
"""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document as Passage
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.ingestion import IngestionPipeline

from doppler_plugins.langchain import DopplerEmbeddings
from doppler_plugins.llama_index import DopplerEmbedding

pytestmark = pytest.mark.real

QUESTION = "Which planet is known as the Red Planet?"
PLANETS = [
    "Venus is often called Earth's twin because of its similar size and proximity.",
    "Mars, known for its reddish appearance, is often referred to as the Red Planet.",
    "Jupiter, the largest planet in our solar system, has a prominent red spot.",
    "Saturn, famous for its rings, is sometimes mistaken for the Red Planet.",
]
CARD = [0.3008, 0.6361, 0.4927, 0.4889]
CAPITAL, PARIS = "What is the capital of France?", "Paris is the capital of France."
CUT = {512: 0.583285, 256: 0.642372, 128: 0.674278}

# f16 weights; the card itself gives four digits.
TOLERANCE = 5e-4


@pytest.fixture(scope="module", params=["numpy", "wgpu"])
def words(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    cache = os.environ.get("DOPPLER_PLUGINS_CACHE_DIR") or str(tmp_path_factory.mktemp("cache"))
    model = Path(os.environ["DOPPLER_PLUGINS_REAL_MODELS"]) / "embeddinggemma-300m"
    return {"model": str(model), "device": request.param, "cache_dir": cache}


@pytest.fixture(scope="module")
def embeddings(words: dict[str, Any]) -> Iterator[DopplerEmbeddings]:
    with DopplerEmbeddings(**words) as opened:
        yield opened


@pytest.fixture(scope="module")
def embed_model(words: dict[str, Any]) -> Iterator[DopplerEmbedding]:
    with DopplerEmbedding(**words) as opened:
        yield opened


def test_langchain_gives_the_model_cards_similarities(embeddings: DopplerEmbeddings) -> None:
    found = np.array(embeddings.embed_documents(PLANETS)) @ embeddings.embed_query(QUESTION)
    np.testing.assert_allclose(found, CARD, rtol=0, atol=TOLERANCE)


def test_llama_index_gives_the_model_cards_similarities(embed_model: DopplerEmbedding) -> None:
    async def similarities() -> Any:
        documents = await embed_model.aget_text_embedding_batch(PLANETS)
        return np.array(documents) @ await embed_model.aget_query_embedding(QUESTION)

    np.testing.assert_allclose(asyncio.run(similarities()), CARD, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("size", CUT)
def test_a_cut_vector_has_length_one_again(embeddings: DopplerEmbeddings, size: int) -> None:
    smaller = embeddings.model_copy(update={"truncate_dim": size})
    query, document = np.array(smaller.embed_query(CAPITAL)), np.array(smaller.embed_documents([PARIS])[0])
    assert len(query) == len(document) == size
    np.testing.assert_allclose([query @ query, document @ document], 1, rtol=0, atol=1e-5)
    assert query @ document == pytest.approx(CUT[size], abs=TOLERANCE)


def test_langchain_retrieves_the_right_passage(embeddings: DopplerEmbeddings) -> None:
    passages = [Passage(text, metadata={"title": text.split()[0].strip(",")}) for text in PLANETS]
    store = InMemoryVectorStore.from_documents(passages, embeddings.with_titles_of(passages))
    assert store.similarity_search(QUESTION, k=1)[0].page_content == PLANETS[1]


def test_llama_index_retrieves_the_right_passage(embed_model: DopplerEmbedding) -> None:
    documents = [Document(text=text, metadata={"title": text.split()[0].strip(",")}) for text in PLANETS]
    nodes = IngestionPipeline(transformations=[embed_model]).run(documents=documents)
    index = VectorStoreIndex(nodes, embed_model=embed_model)
    assert index.as_retriever(similarity_top_k=1).retrieve(QUESTION)[0].node.get_content() == PLANETS[1]
