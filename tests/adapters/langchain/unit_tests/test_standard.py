"""LangChain's standard unit tests."""

from typing import Any

import pytest
from langchain_tests.unit_tests import EmbeddingsUnitTests

from doppler_plugins.langchain import DopplerEmbeddings


@pytest.mark.usefixtures("script")
class TestScripted(EmbeddingsUnitTests):
    @property
    def embeddings_class(self) -> type[DopplerEmbeddings]:
        return DopplerEmbeddings

    @property
    def embedding_model_params(self) -> dict[str, Any]:
        return {"model": "scripted"}

    @property
    def init_from_env_params(self) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
        environment = {
            "DOPPLER_PLUGINS_DEVICE": "numpy",
            "DOPPLER_PLUGINS_PRECISION": "q8_0",
            "DOPPLER_PLUGINS_MEMORY_LIMIT": "1000000000",
            "DOPPLER_PLUGINS_CACHE_DIR": "/somewhere",
            "DOPPLER_PLUGINS_OFFLINE": "1",
        }
        expected = {
            "device": "numpy",
            "precision": "q8_0",
            "memory_limit": 1_000_000_000,
            "cache_dir": "/somewhere",
            "offline": True,
        }
        return environment, {"model": "scripted"}, expected
