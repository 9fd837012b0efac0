"""One contestant of embed_vs_peers.py, in a process of its own: embeds the documents each time a line comes in.

    python contestant.py NAME MODEL   (documents as JSON on the first line of stdin; then one line for each run)

Answers with a line of JSON: first open_seconds and the vectors, then seconds for each run. It runs in the peers'
environment too, so it imports nothing of the project before it knows that it is one of ours.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

Embed = Callable[[list[str]], Any]
PROMPT = "title: none | text: "
# Tokens per batch of llama.cpp, packed without padding: 512 was its fastest here, and every document fits.
PACK = 512


def ours(model: str, device: str, precision: str) -> Embed:
    """This project on one of its executors."""
    from doppler_core.settings import EngineSettings
    from doppler_plugins import open_engine

    engine = open_engine(model, EngineSettings(device=device, precision=precision))
    engine.warmup()
    return lambda texts: engine.embed(texts).vectors


def sentence_transformers(model: str) -> Embed:
    """sentence-transformers in float32. Batches of 4 were its fastest here: larger ones pad more than they save."""
    from sentence_transformers import SentenceTransformer  # type: ignore[import-not-found]

    opened = SentenceTransformer(model, device="cpu")
    return lambda texts: opened.encode(texts, prompt=PROMPT, batch_size=4, convert_to_numpy=True)


def llama_cpp(model: str) -> Embed:
    """llama.cpp on a GGUF file of the same model, dense layers included."""
    from llama_cpp import Llama  # type: ignore[import-not-found]

    threads = int(os.environ["OMP_NUM_THREADS"])
    opened = Llama(
        model, embedding=True, n_ctx=2048, n_batch=PACK, n_ubatch=PACK,
        n_threads=threads, n_threads_batch=threads, verbose=False,
    )  # fmt: skip
    if "gemma-embedding.dense_2_feat_out" not in opened.metadata:
        raise SystemExit(f"{model} lacks the dense layers: write one with benchmarks/embedding_gguf.py")
    return lambda texts: opened.embed([PROMPT + text for text in texts], normalize=True, truncate=False)


CONTESTANTS: dict[str, Callable[[str], Embed]] = {
    "numpy": lambda model: ours(model, "numpy", "f16"),
    "wgpu": lambda model: ours(model, "wgpu", "f16"),
    "sentence-transformers": sentence_transformers,
    "llama.cpp": llama_cpp,
}


def main() -> None:
    """Load, warm up on the documents once, then time a run for every line."""
    name, model = sys.argv[1:]
    texts = json.loads(sys.stdin.readline())
    started = time.perf_counter()
    embed = CONTESTANTS[name](model)
    opened = time.perf_counter() - started
    vectors = embed(texts)
    answer = {"open_seconds": opened, "vectors": [[float(value) for value in vector] for vector in vectors]}
    print(json.dumps(answer), flush=True)
    for _ in sys.stdin:
        started = time.perf_counter()
        embed(texts)
        print(json.dumps({"seconds": time.perf_counter() - started}), flush=True)


if __name__ == "__main__":
    main()
