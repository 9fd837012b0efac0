"""Contract suites for pytest: subclass one, name your class and its words, and its tests are collected as yours."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from doppler_plugins.testing.llama_index_embedding import LlamaIndexEmbeddingContract

__all__ = ["LlamaIndexEmbeddingContract"]

_HOMES = {"LlamaIndexEmbeddingContract": "doppler_plugins.testing.llama_index_embedding"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        import pytest

        pytest.register_assert_rewrite(_HOMES[name])  # so that a failing test shows the values it compared
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
