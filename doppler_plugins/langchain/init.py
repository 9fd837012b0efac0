"""A chat model from its name, as LangChain's function of the same name makes those that it knows of.

LangChain's own list of providers is closed: it can't know of this one.
"""

from typing import Any

from doppler_plugins.langchain.answer import PROVIDER
from doppler_plugins.langchain.chat import ChatDoppler


def init_chat_model(model: str, **words: Any) -> ChatDoppler:
    """`ChatDoppler(model=model, **words)`; `model` may begin with "doppler:". It opens nothing."""
    return ChatDoppler(model=model.removeprefix(f"{PROVIDER}:"), **words)
