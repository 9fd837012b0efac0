"""Contract suites for pytest: subclass one, name your class and its words, and its tests are collected as yours."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from doppler_plugins.testing.llama_index_embedding import LlamaIndexEmbeddingContract
    from doppler_plugins.testing.llama_index_llm import LlamaIndexLLMContract

__all__ = ["LlamaIndexEmbeddingContract", "LlamaIndexLLMContract"]

_HOMES = {
    "LlamaIndexEmbeddingContract": "doppler_plugins.testing.llama_index_embedding",
    "LlamaIndexLLMContract": "doppler_plugins.testing.llama_index_llm",
}
_PARTS = [
    f"doppler_plugins.testing.llm_{part}"
    for part in ("suite", "forms", "concurrency", "tools", "structured", "components")
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        import pytest

        # So that a failing test shows the values it compared.
        pytest.register_assert_rewrite(*_HOMES.values(), *_PARTS)
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
