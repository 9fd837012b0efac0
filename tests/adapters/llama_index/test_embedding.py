"""What DopplerEmbedding does beyond the contract."""

import asyncio
import pickle
from typing import Any

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.callbacks import CallbackManager
from llama_index.core.embeddings.utils import resolve_embed_model
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import Document, TextNode
from llama_index.core.storage.kvstore import SimpleKVStore

from doppler_core.errors import TextTooLongError
from doppler_plugins.llama_index import DopplerEmbedding
from doppler_plugins.llama_index.texts import QueryText, TitledText, kind_of, texts_of, title_of
from tests.adapters.scripted import Scripted, wait_until

pytestmark = pytest.mark.usefixtures("script")


@pytest.fixture
def embed_model() -> DopplerEmbedding:
    return DopplerEmbedding(model="scripted")


def counts(script: Scripted) -> list[int]:
    return [len(request.texts) for request in script.requests]


def test_a_batch_is_one_request(embed_model: DopplerEmbedding, script: Scripted) -> None:
    texts = [f"text {number}" for number in range(300)]
    embed_model.get_text_embedding_batch(texts)
    asyncio.run(embed_model.aget_text_embedding_batch(texts))
    assert counts(script) == [256, 44, 256, 44]


def test_cancelling_a_batch_cancels_every_request_of_it(script: Scripted) -> None:
    script.step_seconds = 0.005
    embed_model = DopplerEmbedding(model="scripted", embed_batch_size=100)

    async def quit_early() -> None:
        task = asyncio.create_task(embed_model.aget_text_embedding_batch(["a"] * 1000))
        await asyncio.to_thread(wait_until, lambda: script.steps >= 3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # Behind 1000 texts of 5 ms this one would wait for 5 s.
        async with asyncio.timeout(2.5):
            await embed_model.aget_query_embedding("b")

    asyncio.run(quit_early())
    assert script.steps < 100


def test_the_index_of_what_is_no_text_counts_over_all_batches(script: Scripted) -> None:
    embed_model = DopplerEmbedding(model="scripted", embed_batch_size=2)
    texts: list[Any] = ["a", "b", "c", None]
    with pytest.raises(TypeError, match="text 3"):
        embed_model.get_text_embedding_batch(texts)
    with pytest.raises(TypeError, match="text 3"):
        asyncio.run(embed_model.aget_text_embedding_batch(texts))
    assert script.opened == []


def test_core_errors_arrive_as_they_are(embed_model: DopplerEmbedding) -> None:
    with pytest.raises(TextTooLongError):
        embed_model.get_text_embedding("long " * 100)


def test_a_title_goes_from_the_metadata_into_the_prompt(
    embed_model: DopplerEmbedding, script: Scripted
) -> None:
    node = TextNode(text="they freeze over", metadata={"title": "Ponds", "year": 2024})
    embed_model([node])
    request = script.requests[0]
    assert request.titles == ("Ponds",)
    assert request.texts == ("year: 2024\n\nthey freeze over",)
    assert node.excluded_embed_metadata_keys == [], "the node is as it was"
    again = node.model_copy()
    asyncio.run(embed_model.acall([again]))
    assert again.embedding == node.embedding


@pytest.mark.parametrize(
    ("words", "metadata", "excluded", "title", "text"),
    [
        ({}, {"title": "Ponds"}, [], "Ponds", "body"),
        ({}, {"title": "Ponds"}, ["title"], None, "body"),
        ({}, {"title": "  "}, [], None, "title:\n\nbody"),
        ({}, {"title": None}, [], None, "title: None\n\nbody"),
        ({}, {"title": 1984}, [], "1984", "body"),
        ({}, {"name": "Ponds"}, [], None, "name: Ponds\n\nbody"),
        ({"title_metadata_key": "name"}, {"name": "Ponds"}, [], "Ponds", "body"),
        ({"title_metadata_key": None}, {"title": "Ponds"}, [], None, "title: Ponds\n\nbody"),
        ({"task": "Clustering"}, {"title": "Ponds"}, [], None, "title: Ponds\n\nbody"),
        ({"document_prompt": ""}, {"title": "Ponds"}, [], None, "title: Ponds\n\nbody"),
        ({"title": "common"}, {"name": "x"}, [], "common", "name: x\n\nbody"),
    ],
)
def test_what_counts_as_a_title(
    script: Scripted,
    words: dict[str, Any],
    metadata: dict[str, Any],
    excluded: list[str],
    title: str | None,
    text: str,
) -> None:
    node = TextNode(text="body", metadata=metadata, excluded_embed_metadata_keys=excluded)
    DopplerEmbedding(model="scripted", **words)([node])
    request = script.requests[0]
    assert (request.titles or (None,))[0] == title
    assert request.texts == (text,)


def test_nodes_without_titles_open_nothing_before_they_are_embedded(script: Scripted) -> None:
    assert DopplerEmbedding(model="scripted")([]) == []
    assert asyncio.run(DopplerEmbedding(model="scripted").acall([])) == []
    assert script.opened == []


def test_marked_texts_are_plain_texts_that_remember() -> None:
    titled = pickle.loads(pickle.dumps(TitledText("body", "Ponds")))
    assert (titled, title_of(titled), kind_of(titled)) == ("body", "Ponds", "document")
    assert (kind_of(QueryText("a")), title_of(QueryText("a"))) == ("query", None)
    assert title_of("title") is None, "str.title is a method"
    assert [type(text) for text in texts_of([TextNode(text="a")], "title")] == [str]


def test_the_cache_serves_what_it_holds(script: Scripted) -> None:
    cached = DopplerEmbedding(model="scripted", embeddings_cache=SimpleKVStore())
    first = cached.get_text_embedding_batch(["a", "b"])
    assert cached.get_text_embedding_batch(["b", "a"]) == first[::-1]
    assert asyncio.run(cached.aget_text_embedding_batch(["a", "b", "c"]))[:2] == first
    assert cached.get_text_embedding("a") == first[0]
    assert counts(script) == [2, 1]


def test_the_cache_keeps_apart_whatever_differs(script: Scripted) -> None:
    store = SimpleKVStore()
    plain = DopplerEmbedding(model="scripted", embeddings_cache=store)
    others = [
        plain,
        plain.model_copy(update={"dimensions": 16}),
        plain.model_copy(update={"task": "Clustering"}),
        plain.model_copy(update={"model": "scripted-2"}),
        plain.model_copy(update={"precision": "q8_0"}),
        plain.model_copy(update={"output_dtype": "int8"}),
        plain.model_copy(update={"title": "Ponds"}),
    ]
    for one in others[:-1]:
        one.get_text_embedding("a")
        one.get_query_embedding("a")
    others[-1].get_text_embedding("a")
    plain([TextNode(text="a", metadata={"title": "Lakes"})])
    assert sum(counts(script)) == 2 * 6 + 1 + 1, "nobody was served what another one asked for"
    assert len(store.get_all(collection="embeddings")) == sum(counts(script))


def test_a_pickled_or_copied_cache_is_not_wrapped_twice(script: Scripted) -> None:
    cached = DopplerEmbedding(model="scripted", embeddings_cache=SimpleKVStore())
    cached.get_text_embedding("a")
    for other in (pickle.loads(pickle.dumps(cached)), cached.model_copy(), cached.model_copy(deep=True)):
        assert type(other.embeddings_cache.store) is SimpleKVStore
        other.get_text_embedding("a")
    assert counts(script) == [1]


def test_a_cached_vector_can_be_deleted_by_its_text(script: Scripted) -> None:
    cached = DopplerEmbedding(model="scripted", embeddings_cache=SimpleKVStore())
    cached.get_text_embedding("a")
    assert cached.embeddings_cache.delete("a", collection="embeddings")
    assert not asyncio.run(cached.embeddings_cache.adelete("a", collection="embeddings"))
    cached.get_text_embedding("a")
    assert counts(script) == [1, 1]


def test_a_store_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="BaseKVStore"):
        DopplerEmbedding(model="scripted", embeddings_cache={})


def test_a_pipeline_embeds_again_only_when_a_word_changes(script: Scripted) -> None:
    documents = [Document(text="a", doc_id="1")]
    pipeline = IngestionPipeline(transformations=[DopplerEmbedding(model="scripted")])
    pipeline.run(documents=documents)
    pipeline.transformations = [DopplerEmbedding(model="scripted")]
    pipeline.run(documents=documents)
    assert counts(script) == [1]
    pipeline.transformations = [DopplerEmbedding(model="scripted", dimensions=16)]
    pipeline.run(documents=documents)
    assert counts(script) == [1, 1]


def test_the_payload_of_events_names_the_model(embed_model: DopplerEmbedding) -> None:
    assert embed_model.to_payload()["model_name"] == "scripted"


def test_it_can_be_the_embed_model_of_everything(embed_model: DopplerEmbedding, script: Scripted) -> None:
    with_events = resolve_embed_model(embed_model, callback_manager=CallbackManager())
    assert with_events is embed_model, "LlamaIndex assigns its callback manager to it"
    assert (
        len(VectorStoreIndex.from_documents([Document(text="a")], embed_model=with_events).docstore.docs) == 1
    )
    assert counts(script) == [1]
