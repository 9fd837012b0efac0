"""LangChain's standard integration tests."""

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
