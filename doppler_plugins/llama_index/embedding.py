"""`DopplerEmbedding`: LlamaIndex's BaseEmbedding over this project's engine. It only translates.

One batch is one request; async methods await the engine and never block the event loop.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from doppler_plugins.adapters.embedding import aembed, check_texts, embed
from doppler_plugins.adapters.extras import missing_extra
from doppler_plugins.adapters.model_words import Word
from doppler_plugins.adapters.words import EmbeddingWords

try:
    from llama_index.core.base.embeddings.base import BaseEmbedding, Embedding
    from llama_index.core.schema import BaseNode
except ModuleNotFoundError as error:
    raise missing_extra("llama-index", error) from error

from doppler_plugins.llama_index.cache import SeparatingStore
from doppler_plugins.llama_index.texts import QueryText, have_titles, texts_of, title_of


class DopplerEmbedding(EmbeddingWords, BaseEmbedding):
    """Embeddings with the checkpoint's own prompts: one for queries, one for documents.

        embed_model = DopplerEmbedding(model="hf:google/embeddinggemma-300m", dimensions=256)
        index = VectorStoreIndex.from_documents(documents, embed_model=embed_model)

    The words are those of `EmbeddingWords`, and BaseEmbedding's own. Constructing one opens nothing; the first text does.
    In an IngestionPipeline the titles in the nodes' metadata go into the document prompt; an index that embeds by
    itself passes on texts alone, with the title among their metadata lines.
    """

    model_name: Word[str] = ""
    """The same as `model`."""
    embed_batch_size: Annotated[int, Field(gt=0, le=2048)] = 256
    """Texts in one request. The engine packs them by tokens, so that more cost no padding."""
    embeddings_cache: Annotated[Any, Field(frozen=True, exclude=True)] = None
    """A BaseKVStore that keeps vectors; its keys separate queries, documents, models and options."""
    title_metadata_key: Word[str | None] = "title"
    """Where nodes keep their title; None = nowhere."""

    @model_validator(mode="after")
    def _adapt(self) -> Self:
        self.__dict__["model_name"] = self.model
        store = self.embeddings_cache
        if store is not None:
            # A copied or unpickled one arrives wrapped, and the words may have changed since.
            store = store.store if isinstance(store, SeparatingStore) else store
            self.__dict__["embeddings_cache"] = SeparatingStore(store, self._lazy, self._options)
        return self

    @classmethod
    def class_name(cls) -> str:
        """The name in serialised pipelines."""
        return "DopplerEmbedding"

    def get_query_embedding(self, query: str) -> Embedding:
        """One vector, with the query prompt."""
        return super().get_query_embedding(QueryText(*check_texts([query])))

    async def aget_query_embedding(self, query: str) -> Embedding:
        """`get_query_embedding` on an event loop."""
        return await super().aget_query_embedding(QueryText(*check_texts([query])))

    def get_text_embedding_batch(
        self, texts: list[str], show_progress: bool = False, **kwargs: Any
    ) -> list[Embedding]:
        """One vector per text, with the document prompt."""
        return super().get_text_embedding_batch(check_texts(texts), show_progress, **kwargs)

    async def aget_text_embedding_batch(
        self, texts: list[str], show_progress: bool = False, **kwargs: Any
    ) -> list[Embedding]:
        """`get_text_embedding_batch` on an event loop; cancelling the task cancels every request of it."""
        return await super().aget_text_embedding_batch(check_texts(texts), show_progress, **kwargs)

    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> Sequence[BaseNode]:
        """Give every node its vector, titles taken from their metadata."""
        titled = False
        if have_titles(nodes, self.title_metadata_key):
            with self._lazy.using() as engine:
                titled = self._options.takes_titles(engine.capabilities)
        texts = texts_of(nodes, self.title_metadata_key if titled else None)
        return _with_vectors(nodes, self.get_text_embedding_batch(texts, **kwargs))

    async def acall(self, nodes: Sequence[BaseNode], **kwargs: Any) -> Sequence[BaseNode]:
        """`__call__` on an event loop."""
        titled = False
        if have_titles(nodes, self.title_metadata_key):
            async with self._lazy.ausing() as engine:
                titled = self._options.takes_titles(engine.capabilities)
        texts = texts_of(nodes, self.title_metadata_key if titled else None)
        return _with_vectors(nodes, await self.aget_text_embedding_batch(texts, **kwargs))

    def _get_query_embedding(self, query: str) -> Embedding:
        return embed(self._lazy, self._options, "query", [query])[0]

    async def _aget_query_embedding(self, query: str) -> Embedding:
        return (await aembed(self._lazy, self._options, "query", [query]))[0]

    def _get_text_embedding(self, text: str) -> Embedding:
        return self._get_text_embeddings([text])[0]

    async def _aget_text_embedding(self, text: str) -> Embedding:
        return (await self._aget_text_embeddings([text]))[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        return embed(self._lazy, self._options, "document", texts, [title_of(text) for text in texts])

    async def _aget_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        return await aembed(self._lazy, self._options, "document", texts, [title_of(text) for text in texts])


def _with_vectors(nodes: Sequence[BaseNode], vectors: list[Embedding]) -> Sequence[BaseNode]:
    for node, vector in zip(nodes, vectors, strict=True):
        node.embedding = vector
    return nodes
