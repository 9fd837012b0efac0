"""A key-value store for `embeddings_cache` whose keys tell queries, documents, titles, options and models apart.

BaseEmbedding looks vectors up by the bare text, so that a query would get the vector of an equal document, and a
store would serve the vectors of another model or size. Takes a store and the adapter's engine; changes keys only.
"""

import hashlib
import json
from typing import Any

from llama_index.core.storage.kvstore.types import DEFAULT_COLLECTION, BaseKVStore

from doppler_plugins.adapters.embed_options import EmbedOptions
from doppler_plugins.adapters.embedding import acache_namespace, cache_namespace
from doppler_plugins.adapters.lazy_engine import LazyEngine
from doppler_plugins.llama_index.texts import kind_of, title_of


class SeparatingStore(BaseKVStore):
    """`store` with keys `<namespace>:<digest of title and text>`. Opens the engine: its identity is in the namespace."""

    def __init__(self, store: BaseKVStore, lazy: LazyEngine, options: EmbedOptions) -> None:
        self.store = store
        self._lazy = lazy
        self._options = options

    def put(self, key: str, val: dict[str, Any], collection: str = DEFAULT_COLLECTION) -> None:
        """Keep `val` under the text `key`."""
        self.store.put(self._key(key), val, collection=collection)

    async def aput(self, key: str, val: dict[str, Any], collection: str = DEFAULT_COLLECTION) -> None:
        """`put` on an event loop."""
        await self.store.aput(await self._akey(key), val, collection=collection)

    def get(self, key: str, collection: str = DEFAULT_COLLECTION) -> dict[str, Any] | None:
        """What is kept under the text `key`."""
        return self.store.get(self._key(key), collection=collection)

    async def aget(self, key: str, collection: str = DEFAULT_COLLECTION) -> dict[str, Any] | None:
        """`get` on an event loop."""
        return await self.store.aget(await self._akey(key), collection=collection)

    def get_all(self, collection: str = DEFAULT_COLLECTION) -> dict[str, dict[str, Any]]:
        """Everything in the collection, under the keys as they are stored."""
        return self.store.get_all(collection=collection)

    async def aget_all(self, collection: str = DEFAULT_COLLECTION) -> dict[str, dict[str, Any]]:
        """`get_all` on an event loop."""
        return await self.store.aget_all(collection=collection)

    def delete(self, key: str, collection: str = DEFAULT_COLLECTION) -> bool:
        """Forget the text `key`; False if it was not there."""
        return self.store.delete(self._key(key), collection=collection)

    async def adelete(self, key: str, collection: str = DEFAULT_COLLECTION) -> bool:
        """`delete` on an event loop."""
        return await self.store.adelete(await self._akey(key), collection=collection)

    def _key(self, text: str) -> str:
        return _joined(cache_namespace(self._lazy, self._options, kind_of(text)), text)

    async def _akey(self, text: str) -> str:
        return _joined(await acache_namespace(self._lazy, self._options, kind_of(text)), text)


def _joined(namespace: str, text: str) -> str:
    # JSON escapes unpaired surrogates, which have no UTF-8 form, and keeps title and text apart.
    digest = hashlib.sha256(json.dumps([title_of(text), text]).encode()).hexdigest()
    return f"{namespace}:{digest}"
