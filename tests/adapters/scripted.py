"""A model without weights behind the real engine: bags of hashed words, steps of one text, a delay that tests set.

Takes the place of `open_engine`; shows what was asked, what was opened and what was given up.
"""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from doppler_core.engine.engine import Engine
from doppler_core.engine.request import Capabilities, Delta, EmbedRequest, EmbedResult
from doppler_core.errors import InputError, ModelNotFoundError, TextTooLongError
from doppler_core.settings import EngineSettings
from doppler_core.text.prompt import choose_prompt, prompted
from doppler_plugins.sharing import share

MODELS = ("scripted", "scripted-2")
PROMPTS = {
    "query": "task: search result | query: ",
    "document": "title: none | text: ",
    "Clustering": "task: clustering | query: ",
}
CAPABILITIES = Capabilities(
    embeds=True,
    context_length=50,
    dimensions=(32, 16, 8),
    prompts=tuple(PROMPTS),
    title_prompts=("document",),
)


@dataclass
class Scripted:
    """What the scripted models of one test do and saw. Models: "scripted" and "scripted-2"; others do not exist."""

    step_seconds: float = 0.0
    open_seconds: float = 0.0
    capabilities: Capabilities = CAPABILITIES
    opened: list[tuple[str, EngineSettings]] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    requests: list[EmbedRequest] = field(default_factory=list)
    steps: int = 0
    key: object = field(default_factory=object)  # not id(), which a later test's object may have again

    def open_engine(self, model: str, settings: EngineSettings, progress: Any = None) -> Engine:
        """Stands for doppler_plugins.opening.open_engine, shared in the same way."""
        if model not in MODELS:
            raise ModelNotFoundError(f"{model}: no such model")
        return share((self.key, model, settings), lambda: self._open(model, settings))

    def _open(self, model: str, settings: EngineSettings) -> Engine:
        time.sleep(self.open_seconds)
        self.opened.append((model, settings))
        return Engine(
            model_id=model,
            identity=f"{model} {settings.precision}",
            capabilities=self.capabilities,
            plan=None,  # type: ignore[arg-type]  # nothing here is lowered
            driver=Driver(self),
            device="scripted",
            memory_bytes=0,
            closing=lambda: self.closed.append(model),
        )


@dataclass
class Job:
    """One request, its texts embedded one a step."""

    request: EmbedRequest
    texts: list[str]
    truncated: tuple[int, ...]
    rows: list[npt.NDArray[np.float32]] = field(default_factory=list)

    def done(self) -> bool:
        return len(self.rows) == len(self.texts)

    def result(self) -> EmbedResult:
        vectors = np.stack(self.rows)[:, : self.request.dimensions]
        vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        tokens = tuple(len(text.split()) for text in self.texts)
        if self.request.output_dtype == "int8":
            return EmbedResult(np.round(127 * vectors).astype(np.int8), tokens, self.truncated)
        if self.request.output_dtype == "binary":
            return EmbedResult(np.packbits(vectors > 0, axis=1), tokens, self.truncated)
        return EmbedResult(vectors, tokens, self.truncated)

    def news(self) -> tuple[Delta, ...]:
        return ()

    def cancel(self) -> None:
        pass


class Driver:
    def __init__(self, script: Scripted) -> None:
        self._script = script

    def prepare(self, request: EmbedRequest, submitted: float) -> Job:
        self._script.requests.append(request)
        sizes = self._script.capabilities.dimensions
        if request.dimensions is not None and request.dimensions not in sizes:
            raise InputError(f"dimensions={request.dimensions}: expected one of {sizes}")
        prompt = choose_prompt(PROMPTS, request.prompt_name) if request.prompt is None else request.prompt
        titles = request.titles or (None,) * len(request.texts)
        texts = [prompted(text, prompt, title) for text, title in zip(request.texts, titles, strict=True)]
        most = self._script.capabilities.context_length
        long = tuple(index for index, text in enumerate(texts) if len(text.split()) > most)
        if long and request.overflow == "error":
            raise TextTooLongError(f"text {long[0]} has more than {most} tokens", index=long[0], limit=most)
        return Job(request, [" ".join(text.split()[:most]) for text in texts], long)

    def step(self, jobs: Sequence[Job]) -> None:
        self._script.steps += 1
        time.sleep(self._script.step_seconds)
        job = jobs[0]
        job.rows.append(bag_of_words(job.texts[len(job.rows)]))

    def warmup(self) -> None:
        pass

    def count_tokens(self, text: str, prompt_name: str | None = None, **fields: object) -> int:
        return len(text.split())


def bag_of_words(text: str) -> npt.NDArray[np.float32]:
    """A unit vector [32]: the sum of one pseudo-random vector for each word, in any case of letters."""
    words = [word.strip(".,?!").casefold() for word in text.split()] or [""]
    total = np.sum([_direction(word) for word in words], axis=0)
    return (total / np.linalg.norm(total)).astype(np.float32)


def _direction(word: str) -> npt.NDArray[np.float64]:
    digest = hashlib.sha256(word.encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big")).normal(size=32)


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait for what another thread does; a test that waits for ever would say less."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.002)
