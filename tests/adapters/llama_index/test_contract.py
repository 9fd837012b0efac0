"""The LlamaIndex contract, on the scripted model and the bundled one with both executors."""

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


@pytest.mark.usefixtures("bundled_model")
class TestNumpy(LlamaIndexEmbeddingContract):
    device = "numpy"

    @property
    def embedding_class(self) -> type[DopplerEmbedding]:
        return DopplerEmbedding

    @property
    def embedding_params(self) -> dict[str, Any]:
        return {"model": "demo-embedding", "device": self.device}


class TestWgpu(TestNumpy):
    device = "wgpu"
