"""`bench`: how fast a model is here. `bench embed`: documents per second, and the time of one query."""

import random
import statistics
import time
from typing import Any

import click

from doppler_core.settings import EngineSettings
from doppler_plugins.cli.bench_generate import bench_generate
from doppler_plugins.cli.opened import opened
from doppler_plugins.cli.options import engine_options
from doppler_plugins.cli.output import emit, json_option, progress_line
from doppler_plugins.cli.spelling import Group

_SENTENCE = (
    "river stone carries morning light under the old bridge while people walk to work and count small coins for "
    "bread because winter came early this year with wind from the north and long quiet evenings near a stove"
)
_SHORTEST, _LONGEST = 10, 340  # words of a document: about 12 to 400 tokens of a large vocabulary


@click.group(cls=Group)
def bench() -> None:
    """Measure a model on this machine."""


bench.add_command(bench_generate)


@bench.command("embed", short_help="Time documents of mixed lengths, and single queries.")
@click.argument("model")
@click.option(
    "--documents", type=click.IntRange(min=1), default=64, show_default=True, help="Texts of a run."
)
@click.option(
    "--repeats", type=click.IntRange(min=1), default=5, show_default=True, help="Runs; the median counts."
)
@json_option
@engine_options
def bench_embed(settings: EngineSettings, model: str, documents: int, repeats: int, as_json: bool) -> None:
    """Open MODEL, warm it up, then embed documents of mixed lengths, and single queries."""
    texts = _documents(documents)
    began = time.perf_counter()
    with opened(model, settings, "embed", "bench ") as engine, progress_line() as progress:
        ready = time.perf_counter()
        engine.warmup()
        warm = time.perf_counter()
        runs, queries, tokens = [], [], 0
        for number in range(repeats):
            result = engine.embed(texts)
            runs.append(result.seconds)
            tokens = sum(result.tokens)
            queries.append(
                engine.embed(["how far is the old bridge from the stove?"], prompt_name="query").seconds
            )
            if progress:
                progress("measuring", number + 1, repeats)
        found: dict[str, Any] = {
            "model": engine.model_id,
            "device": engine.device,
            "documents": documents,
            "tokens": tokens,
            "repeats": repeats,
            "open_seconds": ready - began,
            "warmup_seconds": warm - ready,
            "seconds": statistics.median(runs),
            "seconds_each": runs,
            "documents_per_second": documents / statistics.median(runs),
            "tokens_per_second": tokens / statistics.median(runs),
            "query_seconds": statistics.median(queries),
        }
    emit(found, as_json, _lines(found))


def _documents(count: int) -> list[str]:
    """Texts of mixed lengths, the same every time."""
    chance, words = random.Random(0), _SENTENCE.split()
    return [" ".join(chance.choices(words, k=chance.randint(_SHORTEST, _LONGEST))) for _ in range(count)]


def _lines(found: dict[str, Any]) -> list[str]:
    spread = f"{min(found['seconds_each']):.3f} to {max(found['seconds_each']):.3f} s"
    return [
        f"{found['model']} on {found['device']}",
        f"open {found['open_seconds']:.2f} s, warm-up {found['warmup_seconds']:.2f} s",
        f"{found['documents']} documents, {found['tokens']} tokens: {found['seconds']:.3f} s",
        f"the median of {found['repeats']}, {spread}",
        f"{found['documents_per_second']:.1f} documents/s, {found['tokens_per_second']:.0f} tokens/s",
        f"one query: {1000 * found['query_seconds']:.1f} ms",
    ]
