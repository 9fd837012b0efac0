"""The LlamaIndex contract, on the scripted model and on a real one with both executors."""

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


class TestNumpy(LlamaIndexEmbeddingContract):
    device = "numpy"

    @pytest.fixture(autouse=True)
    def _model(self, tiny_model: str) -> None:
        self.model_path = tiny_model

    @property
    def embedding_class(self) -> type[DopplerEmbedding]:
        return DopplerEmbedding

    @property
    def embedding_params(self) -> dict[str, Any]:
        return {"model": self.model_path, "device": self.device}


class TestWgpu(TestNumpy):
    device = "wgpu"
