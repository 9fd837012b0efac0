"""Texts to lists of numbers through a lazy engine, for threads and for event loops.

Takes what a framework's user passed; gives plain Python lists. Each call is one request: the engine packs it.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence

from doppler_core.engine.request import EmbedRequest, EmbedResult
from doppler_plugins.adapters.embed_options import EmbedOptions, Kind, embed_request, namespace
from doppler_plugins.adapters.lazy_engine import LazyEngine

logger = logging.getLogger(__name__)

# Turning 100,000 numbers into Python objects takes about 2 ms; above that it is done off the event loop.
_NUMBERS_ON_THE_LOOP = 100_000

Titles = Sequence[str | None] | None


def embed(
    lazy: LazyEngine, options: EmbedOptions, kind: Kind, texts: Iterable[str], titles: Titles = None
) -> list[list[float]]:
    """One vector per text, as Python floats (ints for output_dtype "int8" and "binary"); [] for [].

    Raises TypeError naming the index of what is not a str, EngineClosedError after close, and what opening and the
    engine raise. An interrupted wait gives the request up.
    """
    checked = check_texts(texts, titles)
    if not checked:
        return []
    with lazy.using() as engine:
        request = embed_request(options, kind, checked, titles, engine.capabilities)
        handle = engine.submit(request)
        try:
            result = handle.result()
        except BaseException:
            handle.cancel()
            raise
    report_cut(request, result)
    return to_lists(result)


async def aembed(
    lazy: LazyEngine, options: EmbedOptions, kind: Kind, texts: Iterable[str], titles: Titles = None
) -> list[list[float]]:
    """`embed` on an event loop, which does no engine work. Cancelling the task cancels the request."""
    checked = check_texts(texts, titles)
    if not checked:
        return []
    async with lazy.ausing() as engine:
        request = embed_request(options, kind, checked, titles, engine.capabilities)
        result = await engine.submit(request)
    report_cut(request, result)
    if result.vectors.size > _NUMBERS_ON_THE_LOOP:
        return await asyncio.to_thread(to_lists, result)
    return to_lists(result)


def cache_namespace(lazy: LazyEngine, options: EmbedOptions, kind: Kind) -> str:
    """The name of all vectors of one kind made with one model and one set of options. Opens the engine."""
    with lazy.using() as engine:
        return namespace(options, kind, engine.identity, engine.capabilities)


async def acache_namespace(lazy: LazyEngine, options: EmbedOptions, kind: Kind) -> str:
    """`cache_namespace` on an event loop."""
    async with lazy.ausing() as engine:
        return namespace(options, kind, engine.identity, engine.capabilities)


def check_texts(texts: Iterable[str], titles: Titles = None) -> list[str]:
    """The texts as a list; TypeError for anything that is not a str, ValueError for another number of titles."""
    if isinstance(texts, str):
        raise TypeError("expected a list of str, got one str: put it in a list")
    if not isinstance(texts, Iterable):
        raise TypeError(f"expected a list of str, got {type(texts).__name__}")
    checked = list(texts)
    for index, text in enumerate(checked):
        if not isinstance(text, str):
            raise TypeError(f"text {index}: expected str, got {type(text).__name__}")
    if titles is not None and len(titles) != len(checked):
        raise ValueError(f"expected a title or None for each of the {len(checked)} texts, got {len(titles)}")
    return checked


def to_lists(result: EmbedResult) -> list[list[float]]:
    """Vectors as lists of Python numbers, row by row, so that other threads get a turn in between."""
    return [row.tolist() for row in result.vectors]


def report_cut(request: EmbedRequest, result: EmbedResult) -> None:
    """Say in the log which texts `overflow="truncate"` cut."""
    if result.truncated:
        logger.warning(
            "%d of %d texts were longer than the model takes and were cut, at %s",
            len(result.truncated),
            len(request.texts),
            list(result.truncated[:20]),
        )
