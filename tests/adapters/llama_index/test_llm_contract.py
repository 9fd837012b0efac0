"""The LlamaIndex contract of LLMs, on the scripted model and the bundled one with both executors."""

from dataclasses import replace
from typing import Any

import pytest

from doppler_plugins.llama_index import DopplerLLM
from doppler_plugins.testing import LlamaIndexLLMContract
from tests.adapters.obliging import oblige
from tests.adapters.scripted_chat import CAPABILITIES, ScriptedChat


class TestScripted(LlamaIndexLLMContract):
    @pytest.fixture(autouse=True)
    def _obliging(self, chat_script: ScriptedChat) -> None:
        chat_script.reply = oblige
        chat_script.capabilities = replace(CAPABILITIES, context_length=2000)

    @property
    def llm_class(self) -> type[DopplerLLM]:
        return DopplerLLM

    @property
    def llm_params(self) -> dict[str, Any]:
        return {"model": "scripted"}

    @property
    def thinking_words(self) -> dict[str, Any]:
        return {"thinking": True}

    @property
    def logprobs_words(self) -> dict[str, Any]:
        return {"logprobs": True, "top_logprobs": 2}
