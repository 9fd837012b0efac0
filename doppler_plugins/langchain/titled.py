"""Titles for LangChain, whose vector stores pass on texts alone: a view of embeddings that knows the titles.

Takes documents whose metadata name their titles; gives Embeddings to hand to a vector store.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from doppler_plugins.adapters.extras import missing_extra

try:
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
except ModuleNotFoundError as error:
    raise missing_extra("langchain", error) from error


class TakesTitles(Protocol):
    """Embeddings that take a title with each text."""

    def embed_titled(self, texts: Sequence[str], titles: Sequence[str | None]) -> list[list[float]]: ...

    async def aembed_titled(
        self, texts: Sequence[str], titles: Sequence[str | None]
    ) -> list[list[float]]: ...

    def embed_query(self, text: str) -> list[float]: ...

    async def aembed_query(self, text: str) -> list[float]: ...


class TitledEmbeddings(Embeddings):
    """`embeddings` that give each document text in `titles` its title; queries and other texts pass unchanged."""

    def __init__(self, embeddings: TakesTitles, titles: Mapping[str, str]) -> None:
        self.embeddings = embeddings
        self.titles = dict(titles)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector per text, with the titles known."""
        return self.embeddings.embed_titled(texts, self._titles(texts))

    def embed_query(self, text: str) -> list[float]:
        """One vector, with the query prompt."""
        return self.embeddings.embed_query(text)

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """`embed_documents` on an event loop."""
        return await self.embeddings.aembed_titled(texts, self._titles(texts))

    async def aembed_query(self, text: str) -> list[float]:
        """`embed_query` on an event loop."""
        return await self.embeddings.aembed_query(text)

    def _titles(self, texts: list[str]) -> list[str | None]:
        return [self.titles.get(text) for text in texts]


def titles_of(documents: Sequence[Document], key: str) -> dict[str, str]:
    """The title of each text. A text that occurs under different titles gets none: the text can't tell them apart."""
    found: dict[str, set[str]] = {}
    for document in documents:
        title = str(document.metadata.get(key) or "").strip()
        found.setdefault(document.page_content, set()).add(title)
    return {text: min(titles) for text, titles in found.items() if len(titles) == 1 and titles != {""}}
