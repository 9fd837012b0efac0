"""The LlamaIndex contract of LLMs, on the scripted model and the bundled one with both executors."""

from dataclasses import replace
from typing import Any

import pytest

from doppler_plugins.llama_index import DopplerLLM
from doppler_plugins.testing import LlamaIndexLLMContract
from doppler_plugins.testing.llm_components import LLMComponents
from doppler_plugins.testing.llm_concurrency import LLMConcurrency
from doppler_plugins.testing.llm_forms import LLMForms
from doppler_plugins.testing.llm_structured import LLMStructured
from doppler_plugins.testing.llm_suite import LLMSuite
from tests.adapters.obliging import oblige
from tests.adapters.scripted_chat import CAPABILITIES, ScriptedChat


class OfDoppler(LLMSuite):
    @property
    def llm_class(self) -> type[DopplerLLM]:
        return DopplerLLM

    @property
    def logprobs_words(self) -> dict[str, Any]:
        return {"logprobs": True, "top_logprobs": 2}


class OnDemoChat(OfDoppler):
    bundled: str = "demo-chat"
    device: str

    @property
    def llm_params(self) -> dict[str, Any]:
        return {"model": self.bundled, "device": self.device, "temperature": 0.0, "max_tokens": 100}


class TestScripted(OfDoppler, LlamaIndexLLMContract):
    @pytest.fixture(autouse=True)
    def _obliging(self, chat_script: ScriptedChat) -> None:
        chat_script.reply = oblige
        chat_script.capabilities = replace(CAPABILITIES, context_length=2000)

    @property
    def llm_params(self) -> dict[str, Any]:
        return {"model": "scripted"}

    @property
    def thinking_words(self) -> dict[str, Any]:
        return {"thinking": True}


class TestScriptedWithoutTools(OfDoppler, LLMForms, LLMConcurrency, LLMStructured, LLMComponents):
    """What LlamaIndex makes of a model that was not taught to call anything."""

    has_tool_calling = False

    @pytest.fixture(autouse=True)
    def _obliging(self, chat_script: ScriptedChat) -> None:
        chat_script.reply = oblige
        chat_script.capabilities = replace(CAPABILITIES, tools=False, reasoning=False, context_length=2000)

    @property
    def llm_params(self) -> dict[str, Any]:
        return {"model": "scripted"}


@pytest.mark.usefixtures("bundled_model")
class TestNumpy(OnDemoChat, LlamaIndexLLMContract):
    device = "numpy"


@pytest.mark.usefixtures("bundled_model")
class TestWgpu(OnDemoChat, LLMForms, LLMStructured):
    """What tokens and masks go through; the rest does not see which executor there is."""

    device = "wgpu"
