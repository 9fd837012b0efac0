"""What a LlamaIndex embedding class has to do, as tests. LlamaIndex has no such suite of its own.

    class TestMine(LlamaIndexEmbeddingContract):
        @property
        def embedding_class(self): return MyEmbedding
        @property
        def embedding_params(self): return {"model_name": "mine"}

Coroutines run in `asyncio.run`, so that no pytest plugin is needed.
"""

import asyncio
import copy
import pickle
import time
from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.instrumentation.events.embedding import EmbeddingEndEvent
from llama_index.core.schema import TextNode
from llama_index.core.storage.kvstore import SimpleKVStore
from llama_index_instrumentation import get_dispatcher
from pydantic import Field

TEXTS = [
    "Salt lowers the freezing point of water.",
    "",
    "The library opens at nine on weekdays, and at ten on Saturdays; it is closed on Sundays.",
    "Ponds",
    "A kestrel hovers by beating its wings into the wind.",
]


class _Ends(BaseEventHandler):
    chunks: list[str] = Field(default_factory=list)

    @classmethod
    def class_name(cls) -> str:
        return "_Ends"

    def handle(self, event: BaseEvent, **kwargs: Any) -> None:
        if isinstance(event, EmbeddingEndEvent):
            self.chunks.extend(event.chunks)


class LlamaIndexEmbeddingContract:
    """Subclass it as `Test...`; every property may be overridden."""

    @property
    @abstractmethod
    def embedding_class(self) -> type[BaseEmbedding]:
        """The class under test."""

    @property
    def embedding_params(self) -> dict[str, Any]:
        """The words to construct it with."""
        return {}

    @property
    def asymmetric(self) -> bool:
        """Whether a query and a document of equal text have different vectors."""
        return True

    @property
    def tolerance(self) -> float:
        """How far two computations of one vector may lie apart; batches may add up in another order."""
        return 1e-4

    @property
    def longest_pause(self) -> float:
        """Seconds for which an event loop may stand still while a batch is embedded."""
        return 0.5

    @pytest.fixture
    def embed_model(self) -> BaseEmbedding:
        """A new one for each test."""
        return self.embedding_class(**self.embedding_params)

    def same(self, left: Any, right: Any) -> bool:
        """Whether vectors are equal within the tolerance."""
        return np.shape(left) == np.shape(right) and bool(
            np.allclose(left, right, rtol=0, atol=self.tolerance)
        )

    def test_it_has_a_name_of_its_own(self, embed_model: BaseEmbedding) -> None:
        assert embed_model.class_name() not in (BaseEmbedding.class_name(), "")
        assert embed_model.model_name not in ("unknown", "")

    def test_an_unknown_word_is_refused(self) -> None:
        with pytest.raises(ValueError, match="embed_bach_size"):
            self.embedding_class(**{**self.embedding_params, "embed_bach_size": 8})

    def test_vectors_are_lists_of_python_floats(self, embed_model: BaseEmbedding) -> None:
        vectors = [embed_model.get_query_embedding("a"), embed_model.get_text_embedding("a")]
        vectors += embed_model.get_text_embedding_batch(["a", "b"])
        assert {type(vector) for vector in vectors} == {list}
        assert {type(number) for vector in vectors for number in vector} == {float}
        assert len({len(vector) for vector in vectors}) == 1

    def test_a_batch_is_its_texts_in_order(self, embed_model: BaseEmbedding) -> None:
        batch = embed_model.get_text_embedding_batch(TEXTS)
        assert self.same(batch, [embed_model.get_text_embedding(text) for text in TEXTS])
        assert self.same(batch[::-1], embed_model.get_text_embedding_batch(TEXTS[::-1]))

    def test_batches_of_any_size_are_the_same(self) -> None:
        whole = self.embedding_class(**self.embedding_params).get_text_embedding_batch(TEXTS)
        small = self.embedding_class(**{**self.embedding_params, "embed_batch_size": 2})
        assert self.same(whole, small.get_text_embedding_batch(TEXTS))

    def test_no_texts_give_no_vectors(self, embed_model: BaseEmbedding) -> None:
        assert embed_model.get_text_embedding_batch([]) == []
        assert asyncio.run(embed_model.aget_text_embedding_batch([])) == []

    @pytest.mark.parametrize("wrong", [None, 7, b"bytes"])
    def test_what_is_not_text_is_a_type_error_with_its_index(
        self, embed_model: BaseEmbedding, wrong: Any
    ) -> None:
        with pytest.raises(TypeError, match=r"\b1\b"):
            embed_model.get_text_embedding_batch(["a", wrong])
        with pytest.raises(TypeError, match="str"):
            embed_model.get_query_embedding(wrong)

    def test_async_gives_what_sync_gives(self, embed_model: BaseEmbedding) -> None:
        async def everything() -> tuple[Any, ...]:
            query, text = embed_model.aget_query_embedding("a b"), embed_model.aget_text_embedding("a b")
            return await asyncio.gather(query, text, embed_model.aget_text_embedding_batch(TEXTS))

        query, text, batch = asyncio.run(everything())
        assert self.same(query, embed_model.get_query_embedding("a b"))
        assert self.same(text, embed_model.get_text_embedding("a b"))
        assert self.same(batch, embed_model.get_text_embedding_batch(TEXTS))

    def test_the_event_loop_goes_on_while_a_batch_is_embedded(self, embed_model: BaseEmbedding) -> None:
        async def longest_gap() -> float:
            batch = asyncio.ensure_future(embed_model.aget_text_embedding_batch(TEXTS * 8))
            longest, last = 0.0, time.perf_counter()
            while not batch.done():
                await asyncio.sleep(0.01)
                now = time.perf_counter()
                longest, last = max(longest, now - last), now
            await batch
            return longest

        assert asyncio.run(longest_gap()) < self.longest_pause

    def test_threads_get_what_one_gets_alone(self, embed_model: BaseEmbedding) -> None:
        expected = embed_model.get_text_embedding_batch(TEXTS)
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(embed_model.get_text_embedding, TEXTS * 4))
        assert self.same(found, expected * 4)

    def test_queries_and_documents_differ(self, embed_model: BaseEmbedding) -> None:
        same = self.same(embed_model.get_query_embedding("ponds"), embed_model.get_text_embedding("ponds"))
        assert same is not self.asymmetric

    def test_a_cache_changes_no_vector(self, embed_model: BaseEmbedding) -> None:
        store = SimpleKVStore()
        cached = self.embedding_class(**self.embedding_params, embeddings_cache=store)
        for _ in range(2):  # filling it, then reading it
            assert self.same(cached.get_text_embedding("ponds"), embed_model.get_text_embedding("ponds"))
            assert self.same(cached.get_query_embedding("ponds"), embed_model.get_query_embedding("ponds"))
            expected = embed_model.get_text_embedding_batch(TEXTS)
            assert self.same(cached.get_text_embedding_batch(TEXTS), expected)
            assert self.same(asyncio.run(cached.aget_text_embedding_batch(TEXTS)), expected)
            query = asyncio.run(cached.aget_query_embedding("ponds"))
            assert self.same(query, embed_model.get_query_embedding("ponds"))
        assert store.get_all(collection="embeddings")

    def test_copies_and_pickles_work_before_and_after_use(self, embed_model: BaseEmbedding) -> None:
        unused = [copy.deepcopy(embed_model), pickle.loads(pickle.dumps(embed_model))]
        expected = embed_model.get_text_embedding("ponds")
        used = [copy.deepcopy(embed_model), pickle.loads(pickle.dumps(embed_model))]
        for other in unused + used:
            assert self.same(other.get_text_embedding("ponds"), expected)

    def test_its_dict_makes_an_equal_one_and_is_stable(self, embed_model: BaseEmbedding) -> None:
        first = embed_model.to_dict()
        embed_model.get_text_embedding("ponds")
        assert embed_model.to_dict() == first, "an IngestionPipeline would embed everything again"
        assert " at 0x" not in str(first)
        assert self.embedding_class.from_dict(first).to_dict() == first

    def test_events_tell_of_every_text(self, embed_model: BaseEmbedding) -> None:
        ends = _Ends()
        dispatcher = get_dispatcher()
        dispatcher.add_event_handler(ends)
        try:
            embed_model.get_query_embedding("a query")
            embed_model.get_text_embedding_batch(TEXTS)
        finally:
            dispatcher.event_handlers.remove(ends)
        assert ends.chunks == ["a query", *TEXTS]

    def test_nodes_get_their_vectors(self, embed_model: BaseEmbedding) -> None:
        expected = embed_model.get_text_embedding_batch(["kestrels", "salt"])
        nodes = [TextNode(text="kestrels"), TextNode(text="salt")]
        assert self.same([node.embedding for node in embed_model(nodes)], expected)
        nodes = [TextNode(text="kestrels"), TextNode(text="salt")]
        assert self.same([node.embedding for node in asyncio.run(embed_model.acall(nodes))], expected)

    def test_an_index_finds_the_text_itself(self, embed_model: BaseEmbedding) -> None:
        documents = [Document(text=text) for text in TEXTS if text]
        index = VectorStoreIndex.from_documents(documents, embed_model=embed_model)
        found = index.as_retriever(similarity_top_k=1).retrieve(TEXTS[4])
        assert found[0].node.get_content() == TEXTS[4]

    def test_a_pipeline_embeds_as_the_class_does(self, embed_model: BaseEmbedding) -> None:
        pipeline = IngestionPipeline(transformations=[embed_model])
        nodes = pipeline.run(documents=[Document(text=TEXTS[0])])
        assert self.same(nodes[0].embedding, embed_model.get_text_embedding(TEXTS[0]))
