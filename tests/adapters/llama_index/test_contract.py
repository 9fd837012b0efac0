"""The LlamaIndex contract, on the scripted model."""

from typing import Any

import pytest

from doppler_plugins.llama_index import DopplerEmbedding
from doppler_plugins.testing import LlamaIndexEmbeddingContract


@pytest.mark.usefixtures("script")
class TestScripted(LlamaIndexEmbeddingContract):
    @property
    def embedding_class(self) -> type[DopplerEmbedding]:
        return DopplerEmbedding

    @property
    def embedding_params(self) -> dict[str, Any]:
        return {"model": "scripted"}
