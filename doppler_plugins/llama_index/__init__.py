"""LlamaIndex classes. Needs the extra `llama-index`; LlamaIndex is imported when a class is first used."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from doppler_plugins.llama_index.embedding import DopplerEmbedding
    from doppler_plugins.llama_index.everywhere import use_doppler
    from doppler_plugins.llama_index.llm import DopplerLLM

__all__ = ["DopplerEmbedding", "DopplerLLM", "use_doppler"]

_HOMES = {
    "DopplerEmbedding": "doppler_plugins.llama_index.embedding",
    "DopplerLLM": "doppler_plugins.llama_index.llm",
    "use_doppler": "doppler_plugins.llama_index.everywhere",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
