"""`DopplerEmbeddings`: LangChain's Embeddings over this project's engine. It only translates.

One call is one request; async methods await the engine and never block the event loop.
"""

from collections.abc import Sequence

from doppler_plugins.adapters.embedding import aembed, cache_namespace, embed
from doppler_plugins.adapters.extras import missing_extra
from doppler_plugins.adapters.words import EmbeddingWords

try:
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
except ModuleNotFoundError as error:
    raise missing_extra("langchain", error) from error

from doppler_plugins.langchain.errors import translated
from doppler_plugins.langchain.titled import TitledEmbeddings, titles_of


class DopplerEmbeddings(EmbeddingWords, Embeddings):
    """Embeddings with the checkpoint's own prompts: one for queries, one for documents.

        embeddings = DopplerEmbeddings(model="hf:google/embeddinggemma-300m", dimensions=256)
        store = InMemoryVectorStore(embeddings)

    The words are those of `EmbeddingWords`. Constructing one opens nothing; the first text does. Vectors are lists of
    Python floats of length 1 (L2), shape [texts, dimensions].
    """

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector per text, with the document prompt (and `title`, if one is set)."""
        with translated():
            return embed(self._lazy, self._options, "document", texts)

    def embed_query(self, text: str) -> list[float]:
        """One vector, with the query prompt."""
        with translated():
            return embed(self._lazy, self._options, "query", [text])[0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """`embed_documents` on an event loop; cancelling the task cancels the request."""
        with translated():
            return await aembed(self._lazy, self._options, "document", texts)

    async def aembed_query(self, text: str) -> list[float]:
        """`embed_query` on an event loop."""
        with translated():
            return (await aembed(self._lazy, self._options, "query", [text]))[0]

    def embed_titled(self, texts: Sequence[str], titles: Sequence[str | None]) -> list[list[float]]:
        """One vector per text, each with its own title in the document prompt; None = `title`, if one is set."""
        with translated():
            return embed(self._lazy, self._options, "document", texts, titles)

    async def aembed_titled(self, texts: Sequence[str], titles: Sequence[str | None]) -> list[list[float]]:
        """`embed_titled` on an event loop."""
        with translated():
            return await aembed(self._lazy, self._options, "document", texts, titles)

    def with_titles_of(self, documents: Sequence[Document], key: str = "title") -> TitledEmbeddings:
        """These embeddings for a vector store that is to embed `documents` with the titles in their metadata."""
        return TitledEmbeddings(self, titles_of(documents, key))

    @property
    def cache_namespace(self) -> str:
        """For `CacheBackedEmbeddings(namespace=...)`: differs with the model, the prompts and every option. Opens it.

        It is that of documents. A cache for queries takes `query_cache_namespace`, in a store of its own or
        under that namespace: LangChain's one-store form mixes queries and documents of equal text.
        """
        with translated():
            return cache_namespace(self._lazy, self._options, "document")

    @property
    def query_cache_namespace(self) -> str:
        """`cache_namespace` of queries."""
        with translated():
            return cache_namespace(self._lazy, self._options, "query")
