"""The contestants of embed_vs_peers.py: `python embedders.py NAME MODEL`, see contestant.py.

It runs in the peers' environment too, so it imports nothing of the project before it knows that it is one of ours.
"""

import os
import time
from collections.abc import Callable
from typing import Any

from contestant import Functions, serve

Embed = Callable[[list[str]], Any]
PROMPT = "title: none | text: "
# Tokens per batch of llama.cpp, packed without padding: 512 was its fastest here, and every document fits.
PACK = 512


def ours(model: str, device: str, precision: str) -> Functions:
    """This project on one of its executors."""
    from doppler_core.settings import EngineSettings
    from doppler_plugins import open_engine

    engine = open_engine(model, EngineSettings(device=device, precision=precision))
    engine.warmup()
    return timed(lambda texts: engine.embed(texts).vectors)


def sentence_transformers(model: str) -> Functions:
    """sentence-transformers in float32. Batches of 4 were its fastest here: larger ones pad more than they save."""
    from sentence_transformers import SentenceTransformer  # type: ignore[import-not-found]

    opened = SentenceTransformer(model, device="cpu")
    return timed(lambda texts: opened.encode(texts, prompt=PROMPT, batch_size=4, convert_to_numpy=True))


def llama_cpp(model: str) -> Functions:
    """llama.cpp on a GGUF file of the same model, dense layers included."""
    from llama_cpp import Llama  # type: ignore[import-not-found]

    threads = int(os.environ["OMP_NUM_THREADS"])
    opened = Llama(
        model, embedding=True, n_ctx=2048, n_batch=PACK, n_ubatch=PACK,
        n_threads=threads, n_threads_batch=threads, verbose=False,
    )  # fmt: skip
    if "gemma-embedding.dense_2_feat_out" not in opened.metadata:
        raise SystemExit(f"{model} lacks the dense layers: write one with benchmarks/embedding_gguf.py")
    return timed(
        lambda texts: opened.embed([PROMPT + text for text in texts], normalize=True, truncate=False)
    )


def timed(embed: Embed) -> Functions:
    """The functions of an embedder: `vectors` of texts, and the `seconds` that they take."""

    def vectors(texts: list[str]) -> list[list[float]]:
        return [[float(value) for value in vector] for vector in embed(texts)]

    def seconds(texts: list[str]) -> float:
        started = time.perf_counter()
        embed(texts)
        return time.perf_counter() - started

    return {"vectors": vectors, "seconds": seconds}


if __name__ == "__main__":
    serve(
        {
            "numpy": lambda model: ours(model, "numpy", "f16"),
            "wgpu": lambda model: ours(model, "wgpu", "f16"),
            "sentence-transformers": sentence_transformers,
            "llama.cpp": llama_cpp,
        }
    )
