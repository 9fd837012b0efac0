"""LangChain's standard integration tests, on the scripted model and the bundled one with both executors."""

from typing import Any

import pytest
from langchain_tests.integration_tests import EmbeddingsIntegrationTests

from doppler_plugins.langchain import DopplerEmbeddings


@pytest.mark.usefixtures("script")
class TestScripted(EmbeddingsIntegrationTests):
    @property
    def embeddings_class(self) -> type[DopplerEmbeddings]:
        return DopplerEmbeddings

    @property
    def embedding_model_params(self) -> dict[str, Any]:
        return {"model": "scripted"}


@pytest.mark.usefixtures("bundled_model")
class TestNumpy(EmbeddingsIntegrationTests):
    device = "numpy"

    @property
    def embeddings_class(self) -> type[DopplerEmbeddings]:
        return DopplerEmbeddings

    @property
    def embedding_model_params(self) -> dict[str, Any]:
        return {"model": "demo-embedding", "device": self.device}


class TestWgpu(TestNumpy):
    device = "wgpu"
