"""LangChain classes. Needs the extra `langchain`; LangChain is imported when a class is first used."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from doppler_plugins.langchain.chat import ChatDoppler, init_chat_model
    from doppler_plugins.langchain.embeddings import DopplerEmbeddings
    from doppler_plugins.langchain.llm import DopplerLLM
    from doppler_plugins.langchain.titled import TitledEmbeddings

__all__ = ["ChatDoppler", "DopplerEmbeddings", "DopplerLLM", "TitledEmbeddings", "init_chat_model"]

_HOMES = {
    "ChatDoppler": "doppler_plugins.langchain.chat",
    "DopplerEmbeddings": "doppler_plugins.langchain.embeddings",
    "DopplerLLM": "doppler_plugins.langchain.llm",
    "TitledEmbeddings": "doppler_plugins.langchain.titled",
    "init_chat_model": "doppler_plugins.langchain.chat",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
