"""Texts that say what they are on their way through LlamaIndex, which passes on texts alone.

Takes nodes, gives strings for BaseEmbedding's own batching, events and cache; they equal the plain text.
"""

from collections.abc import Sequence
from typing import Self

from llama_index.core.schema import BaseNode, MetadataMode

from doppler_plugins.adapters.embed_options import Kind


class QueryText(str):
    """A text that is embedded as a query."""

    __slots__ = ()


class TitledText(str):
    """A document's text with its title."""

    # Not `title`: that is a method of str.
    document_title: str

    def __new__(cls, text: str, title: str) -> Self:
        """`text`, remembering `title`."""
        titled = super().__new__(cls, text)
        titled.document_title = title
        return titled

    def __reduce__(self) -> tuple[type["TitledText"], tuple[str, str]]:
        return type(self), (str(self), self.document_title)


def kind_of(text: str) -> Kind:
    """What a text is embedded as."""
    return "query" if isinstance(text, QueryText) else "document"


def title_of(text: str) -> str | None:
    """The title a text brings."""
    return text.document_title if isinstance(text, TitledText) else None


def have_titles(nodes: Sequence[BaseNode], title_key: str | None) -> bool:
    """Whether any node has something under the key."""
    return title_key is not None and any(node.metadata.get(title_key) for node in nodes)


def texts_of(nodes: Sequence[BaseNode], title_key: str | None) -> list[str]:
    """The text of each node as LlamaIndex embeds it, its title taken out of the metadata lines and put beside it.

    A title that the node keeps from embedding models (`excluded_embed_metadata_keys`) stays kept from this one.
    """
    return [_text_of(node, title_key) for node in nodes]


def _text_of(node: BaseNode, title_key: str | None) -> str:
    title = str(node.metadata.get(title_key) or "").strip() if title_key is not None else ""
    if title_key is None or not title or title_key in node.excluded_embed_metadata_keys:
        return node.get_content(metadata_mode=MetadataMode.EMBED)
    excluded = [*node.excluded_embed_metadata_keys, title_key]
    untitled = node.model_copy(update={"excluded_embed_metadata_keys": excluded})
    return TitledText(untitled.get_content(metadata_mode=MetadataMode.EMBED), title)
