"""LangChain's standard unit tests of chat models."""

from typing import Any

import pytest
from langchain_tests.unit_tests import ChatModelUnitTests

from doppler_plugins.langchain import ChatDoppler


@pytest.mark.usefixtures("chat_script")
class TestScripted(ChatModelUnitTests):
    @property
    def chat_model_class(self) -> type[ChatDoppler]:
        return ChatDoppler

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"model": "scripted"}

    @property
    def init_from_env_params(self) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
        environment = {
            "DOPPLER_PLUGINS_DEVICE": "numpy",
            "DOPPLER_PLUGINS_PRECISION": "q8_0",
            "DOPPLER_PLUGINS_MEMORY_LIMIT": "1000000000",
        }
        expected = {"device": "numpy", "precision": "q8_0", "memory_limit": 1_000_000_000}
        return environment, {"model": "scripted"}, expected
