"""`demo`: the main jobs, shown with the bundled models: documents found by questions, answers, tools called, canvases.

Three ways to the same engines: directly, through LangChain, through LlamaIndex (each if installed).
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import click

from doppler_core.settings import EngineSettings
from doppler_plugins.cli import demo_canvas, demo_chat, exchange
from doppler_plugins.cli.options import engine_options
from doppler_plugins.cli.output import emit, json_option, table
from doppler_plugins.requirements import explain_missing

_PASSAGES = (
    (
        "A honeybee that has found flowers returns to the hive and dances. The angle of her waggle shows the "
        "direction relative to the sun, and its length shows how far to fly."
    ),
    (
        "Around 1450 Johannes Gutenberg in Mainz printed with movable metal letters that could be used again "
        "and again. Books became so much cheaper that within fifty years millions were in circulation."
    ),
    (
        "Two threads are in deadlock when each holds a lock the other needs, so both wait for ever. Taking "
        "locks always in the same order makes it impossible."
    ),
    (
        "Cool a small burn under running lukewarm water for ten to twenty minutes. Do not use ice, butter or "
        "toothpaste; cover it loosely with something clean."
    ),
    (
        "Mars is red because its dust contains iron that has rusted. Seen from its surface the sky is "
        "pinkish by day and bluish around the setting sun."
    ),
)
_QUESTIONS = (
    "Why does the red planet have that colour?",
    "I touched a hot pan, what helps?",
    "My program hangs because two threads wait for each other.",
    "Who made books cheap?",
)


@dataclass(frozen=True)
class Answer:
    """A question, the passage found for it, and their similarity (None where the framework gives none)."""

    question: str
    passage: str
    score: float | None


Way = tuple[str, str, Callable[[EngineSettings], Any]]  # its name, the adapter it needs, what it does


@dataclass(frozen=True)
class Shown:
    """What each way gave, or what it needs and did not find; and how long it took."""

    ways: dict[str, Any]
    seconds: dict[str, float]


@click.command(short_help="Show what the bundled models can do.")
@json_option
@engine_options
def demo(settings: EngineSettings, as_json: bool) -> None:
    """Find a few documents by questions, answer from one, call tools and see canvases form, with the bundled models,
    directly and through the frameworks."""
    settings = replace(settings, precision=None)  # a precision is for checkpoints; these models are converted
    finding = _show(_WAYS, settings)
    # Documents are short; what a framework puts around a question is not.
    settings = replace(settings, context_length=None)
    chatting, denoising = _show(_CHAT_WAYS, settings), _show(_CANVAS_WAYS, settings)
    value = _plain(demo_chat.FINDER, finding) | {
        "chat": _plain(demo_chat.CHAT, chatting),
        "canvas": _plain(demo_canvas.CANVAS, denoising),
    }
    chat = f"A question on what was found and two tasks with tools at hand, answered by {demo_chat.CHAT}"
    canvas = f"What stood on the canvases of {demo_canvas.CANVAS}, at each step that changed it"
    emit(
        value,
        as_json,
        [*_lines(finding), *_exchange_lines(chat, chatting), *_exchange_lines(canvas, denoising)],
    )


def _show(ways: tuple[Way, ...], settings: EngineSettings) -> Shown:
    shown = Shown({}, {})
    for name, needs, way in ways:
        missing = explain_missing(needs, "doppler-plugins") if needs else ""
        began = time.perf_counter()
        shown.ways[name] = f"needs {missing}" if missing else way(settings)
        shown.seconds[name] = time.perf_counter() - began
    return shown


def _plain(model: str, shown: Shown) -> dict[str, Any]:
    ways = {
        name: given if isinstance(given, str) else [asdict(one) for one in given]
        for name, given in shown.ways.items()
    }
    return {"model": model, "ways": ways, "seconds": shown.seconds}


def _directly(settings: EngineSettings) -> list[Answer]:
    from doppler_plugins.opening import open_engine

    with open_engine(demo_chat.FINDER, settings) as engine:
        documents = engine.embed(list(_PASSAGES), prompt_name="document").vectors
        queries = engine.embed(list(_QUESTIONS), prompt_name="query").vectors
    scores = queries @ documents.T  # unit vectors: [questions, passages] cosines
    return [
        Answer(question, _PASSAGES[row.argmax()], float(row.max()))
        for question, row in zip(_QUESTIONS, scores, strict=True)
    ]


def _with_langchain(settings: EngineSettings) -> list[Answer]:
    from langchain_core.vectorstores import InMemoryVectorStore

    from doppler_plugins.adapters.words import setting_words
    from doppler_plugins.langchain import DopplerEmbeddings

    with DopplerEmbeddings(model=demo_chat.FINDER, **setting_words(settings)) as embeddings:
        store = InMemoryVectorStore.from_texts(list(_PASSAGES), embeddings)
        found = [store.similarity_search_with_score(question, k=1)[0] for question in _QUESTIONS]
    return [
        Answer(question, document.page_content, float(score))
        for question, (document, score) in zip(_QUESTIONS, found, strict=True)
    ]


def _with_llama_index(settings: EngineSettings) -> list[Answer]:
    from llama_index.core import VectorStoreIndex
    from llama_index.core.schema import TextNode

    from doppler_plugins.adapters.words import setting_words
    from doppler_plugins.llama_index import DopplerEmbedding

    with DopplerEmbedding(model=demo_chat.FINDER, **setting_words(settings)) as embed_model:
        nodes = [TextNode(text=passage) for passage in _PASSAGES]
        retriever = VectorStoreIndex(nodes, embed_model=embed_model).as_retriever(similarity_top_k=1)
        found = [retriever.retrieve(question)[0] for question in _QUESTIONS]
    return [
        Answer(question, node.node.get_content(), node.score)
        for question, node in zip(_QUESTIONS, found, strict=True)
    ]


_WAYS: tuple[Way, ...] = (
    ("directly", "", _directly),
    ("LangChain", "langchain.embeddings", _with_langchain),
    ("LlamaIndex", "llama_index.embedding", _with_llama_index),
)
_CHAT_WAYS: tuple[Way, ...] = (
    ("directly", "", demo_chat.directly),
    ("LangChain", "langchain.chat", demo_chat.with_langchain),
    ("LlamaIndex", "llama_index.llm", demo_chat.with_llama_index),
)
_CANVAS_WAYS: tuple[Way, ...] = (
    ("directly", "", demo_canvas.directly),
    ("LangChain", "langchain.chat", demo_canvas.with_langchain),
    ("LlamaIndex", "llama_index.llm", demo_canvas.with_llama_index),
)


def _lines(shown: Shown) -> list[str]:
    lines = [f"{len(_PASSAGES)} documents and {len(_QUESTIONS)} questions, embedded by {demo_chat.FINDER}"]
    for name, found in shown.ways.items():
        lines.append(f"\n{name} ({shown.seconds[name]:.2f} s)")
        if isinstance(found, str):
            lines.append(f"  {found}")
            continue
        lines += [
            f"  {row}"
            for row in table(
                (
                    answer.question,
                    "" if answer.score is None else f"{answer.score:.2f}",
                    answer.passage[:60] + "...",
                )
                for answer in found
            )
        ]
    return lines


def _exchange_lines(title: str, shown: Shown) -> list[str]:
    lines = [f"\n{title}"]
    for name, exchanges in shown.ways.items():
        lines.append(f"\n{name} ({shown.seconds[name]:.2f} s)")
        lines += [f"  {exchanges}"] if isinstance(exchanges, str) else exchange.lines(exchanges)
    return lines
