"""The contestants of generate_vs_peers.py: `python generators.py NAME MODEL`, see contestant.py.

Each has `generate`: so many greedy tokens after a prompt of ids, end tokens passed over. It runs in the peers'
environment too, so it imports nothing of the project before it knows that it is one of ours.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from contestant import Functions, serve

GoOn = Callable[[list[int]], Iterator[int]]
CONTEXT = 2048


def ours(model: str, device: str) -> Functions:
    """This project on one of its executors, with places for the 8 requests that are merged."""
    from doppler_core.engine.request import GenerateRequest
    from doppler_core.settings import EngineSettings
    from doppler_plugins import open_engine

    engine = open_engine(model, EngineSettings(device=device, context_length=CONTEXT, slots=8))

    def request(prompt: list[int], tokens: int) -> GenerateRequest:
        return GenerateRequest(tuple(prompt), max_tokens=tokens, temperature=0, ignore_eos=True)

    def generate(prompt: list[int], tokens: int) -> dict[str, Any]:
        result = engine.submit(request(prompt, tokens)).result()
        return {
            "first_seconds": result.timings.first_token,
            "decode_seconds": result.timings.decode,
            "ids": result.ids,
            "cached": result.usage.cached_tokens,
        }

    def together(prompts: list[list[int]], tokens: int) -> dict[str, Any]:
        """When the tokens of several requests came: seconds from the begin, and how many of a request."""
        begin = time.perf_counter()
        handles = [engine.submit(request(prompt, tokens)) for prompt in prompts]
        came: list[list[tuple[float, int]]] = [[] for _ in prompts]

        def read(number: int) -> None:
            for delta in handles[number]:
                came[number].append((time.perf_counter() - begin, len(delta.ids)))

        readers = [threading.Thread(target=read, args=(number,)) for number in range(len(prompts))]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        return {"came": came}

    def ids(text: str) -> list[int]:
        assert engine.tokenizer is not None
        return engine.tokenizer.encode(text)

    return {"ids": ids, "generate": generate, "together": together, "warmup": engine.warmup}


def transformers(model: str) -> Functions:
    """transformers in float32, one call for the prompt and one for each token: less than its `generate` does."""
    import torch  # type: ignore[import-not-found]
    from transformers import AutoModelForCausalLM  # type: ignore[import-not-found]

    path = Path(model)
    opened = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    opened.eval()

    def go_on(prompt: list[int]) -> Iterator[int]:
        ids, cache = prompt, None
        while True:
            with torch.inference_mode():
                found = opened(
                    input_ids=torch.tensor([ids]), past_key_values=cache, use_cache=True, logits_to_keep=1
                )
            cache = found.past_key_values
            ids = [int(found.logits[0, -1].argmax())]
            yield ids[0]

    return timed(go_on)


def llama_cpp(model: str) -> Functions:
    """llama.cpp with its defaults: keys and values in float16, flash attention where it wants it."""
    from llama_cpp import Llama  # type: ignore[import-not-found]

    threads = int(os.environ["OMP_NUM_THREADS"])
    opened = Llama(model, n_ctx=CONTEXT, n_threads=threads, n_threads_batch=threads, verbose=False)

    def go_on(prompt: list[int]) -> Iterator[int]:
        opened.reset()
        yield from opened.generate(prompt, temp=0.0)

    return timed(go_on)


def timed(go_on: GoOn) -> Functions:
    """The function of a peer that makes one token after the other."""

    def generate(prompt: list[int], tokens: int) -> dict[str, Any]:
        begin = time.perf_counter()
        came = [(time.perf_counter(), token) for token in islice(go_on(prompt), tokens)]
        first, last = came[0][0], came[-1][0]
        ids = [token for _, token in came]
        return {"first_seconds": first - begin, "decode_seconds": last - first, "ids": ids, "cached": 0}

    return {"generate": generate}


if __name__ == "__main__":
    serve(
        {
            "numpy": lambda model: ours(model, "numpy"),
            "wgpu": lambda model: ours(model, "wgpu"),
            "transformers": transformers,
            "llama.cpp": llama_cpp,
        }
    )
