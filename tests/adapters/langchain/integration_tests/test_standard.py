"""LangChain's standard integration tests, on the scripted model and on a real one with both executors."""

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


class TestNumpy(EmbeddingsIntegrationTests):
    device = "numpy"

    @pytest.fixture(autouse=True)
    def _model(self, tiny_model: str) -> None:
        self.model_path = tiny_model

    @property
    def embeddings_class(self) -> type[DopplerEmbeddings]:
        return DopplerEmbeddings

    @property
    def embedding_model_params(self) -> dict[str, Any]:
        return {"model": self.model_path, "device": self.device}


class TestWgpu(TestNumpy):
    device = "wgpu"
