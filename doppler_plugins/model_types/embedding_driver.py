"""Requests to steps for embedding models: texts of any requests packed without padding, results put in order."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from doppler_core.engine.model_type import Opened
from doppler_core.engine.packing import Packing, pack
from doppler_core.engine.request import Capabilities, Delta, EmbedRequest, EmbedResult
from doppler_core.engine.request_check import check_embed_request
from doppler_core.errors import (
    ContradictionError,
    DeviceError,
    InputError,
    LimitError,
    PlanError,
    TextTooLongError,
)
from doppler_core.text.prompt import choose_prompt, prompted
from doppler_core.text.token_count import HUGE


class EmbeddingJob:
    """One request: the ids of its texts, and the vectors as they come."""

    def __init__(
        self,
        request: EmbedRequest,
        ids: list[list[int]],
        truncated: tuple[int, ...],
        dimensions: int,
        submitted: float,
    ) -> None:
        self.request = request
        self.ids = ids
        self.lengths = [len(one) for one in ids]
        self.dimensions = dimensions
        self.vectors = np.zeros((len(ids), dimensions), np.float32)
        self.following = 0  # index of the first text that no step has taken
        self._truncated = truncated
        self._submitted = submitted

    def done(self) -> bool:
        """Whether every text has been embedded."""
        return self.following == len(self.ids)

    def result(self) -> EmbedResult:
        """The vectors in the type asked for; DeviceError if one is not finite."""
        bad = np.flatnonzero(~np.isfinite(self.vectors).all(axis=1))
        if len(bad):
            raise DeviceError(
                f"the vector of text {bad[0]} is not finite: expected numbers, found NaN or infinity; the weights hold such "
                "values, or this device's kernels overflow (`doppler-plugins verify`, then device='numpy', tell which)"
            )
        return EmbedResult(
            vectors=_typed(self.vectors, self.request.output_dtype),
            tokens=tuple(self.lengths),
            truncated=self._truncated,
            seconds=time.perf_counter() - self._submitted,
        )

    def news(self) -> tuple[Delta, ...]:
        """Nothing: vectors come whole."""
        return ()

    def cancel(self) -> None:
        """Nothing: no step takes a text of a job it is not given."""


class EmbeddingDriver:
    """Drives the one phase of an embedding plan."""

    def __init__(self, opened: Opened, capabilities: Capabilities, phase: str) -> None:
        if capabilities.context_length < 1:
            raise PlanError(
                f"context_length={capabilities.context_length} in the model type's capabilities: expected the most tokens "
                "of a text, which text.maxTokens of the manifest says, or max_position_embeddings of config.json"
            )
        executor, tokenizer, text = opened.executor, opened.tokenizer, opened.manifest.text
        wanted = (text.add_bos, text.add_eos)
        if None not in wanted and tokenizer.added != sum(map(bool, wanted)):
            raise ContradictionError(
                f"{tokenizer.path}: it puts {tokenizer.added} tokens around a text, but the manifest's text.addBos and "
                f"text.addEos ask for {sum(map(bool, wanted))}: its post_processor is not this model's"
            )
        self._executor = executor
        self._tokenizer = tokenizer
        self._prompts = dict(text.prompts or {})
        self._ends = bool(text.add_eos)
        self._capabilities = capabilities
        self._phase = phase
        self._max_tokens = min(capabilities.context_length, executor.max_rows)

    def prepare(self, request: EmbedRequest, submitted: float) -> EmbeddingJob:
        """Check the options, put the prompts on, tokenise. InputError names the text or the option."""
        check_embed_request(request)
        dimensions = self._dimensions(request.dimensions)
        if request.output_dtype not in ("float32", "int8", "binary"):
            raise InputError(f"output_dtype={request.output_dtype!r}: expected float32, int8 or binary")
        if request.output_dtype == "binary" and dimensions % 8:
            raise InputError(
                f"output_dtype='binary' packs eight values a byte: {dimensions} dimensions do not fill bytes"
            )
        texts = self._prompted(request)
        if request.overflow == "error":
            self._refuse_long([self._least_tokens(text) for text in texts], "at least ")
        ids = self._tokenizer.encode_batch(texts)
        if request.overflow == "error":
            self._refuse_long([len(one) for one in ids])
        long = [index for index, one in enumerate(ids) if len(one) > self._max_tokens]
        for index in long:
            # The end token is kept, as the publisher's own truncation does.
            kept = ids[index][-1:] if self._ends else []
            ids[index] = ids[index][: self._max_tokens - len(kept)] + kept
        return EmbeddingJob(request, ids, tuple(long), dimensions, submitted)

    def step(self, jobs: Sequence[EmbeddingJob]) -> None:
        """Embed as many texts as one step takes, one of each request in turn."""
        waiting = [(job.lengths, job.following) for job in jobs]
        packing = pack(waiting, self._executor.max_rows, self._executor.max_slots)
        rows, slots = self._tables(jobs, packing)
        try:
            vectors = self._executor.run(self._phase, rows, slots)
        except MemoryError as error:
            raise LimitError(
                f"the system gives no memory for a step of {len(rows)} tokens ({error}): close other engines or "
                "programs, or open the model with a smaller context_length"
            ) from error
        for slot, (number, index) in enumerate(packing):
            job = jobs[number]
            job.vectors[index] = vectors[slot, : job.dimensions]
            job.following = index + 1

    def warmup(self) -> None:
        """Run the phase on two tokens."""
        rows = np.array([[0, 0, 0, 0], [0, 1, 0, 0]], np.uint32)
        self._executor.run(
            self._phase, rows, np.array([[0, 2, self._capabilities.dimensions[0], 0]], np.uint32)
        )

    def count_tokens(self, prompt: Any, prompt_name: str | None = None, **fields: Any) -> int:
        """Tokens of a text behind the named prompt (None: behind none), begin and end tokens included."""
        if not isinstance(prompt, str):
            raise InputError(f"the text is {type(prompt).__name__}: expected a str")
        for name, value in fields.items():
            if value:
                raise InputError(f"{name}: this model embeds text, and holds no conversation")
        named = "" if prompt_name is None else choose_prompt(self._prompts, prompt_name)
        return len(self._tokenizer.encode(prompted(prompt, named)))

    def _dimensions(self, asked: int | None) -> int:
        known = self._capabilities.dimensions
        if asked is None:
            return known[0]
        if asked not in known:
            raise InputError(f"dimensions={asked!r}: this model gives {' or '.join(map(str, known))}")
        return asked

    def _least_tokens(self, text: str) -> int:
        """How many a text has, whatever it says; 0 where they are better counted."""
        return self._tokenizer.least_tokens(len(text)) if len(text) > HUGE else 0

    def _refuse_long(self, lengths: Sequence[int], at_least: str = "") -> None:
        """TextTooLongError where one of the texts has more tokens than the model takes."""
        long = [index for index, tokens in enumerate(lengths) if tokens > self._max_tokens]
        if long:
            first, tokens = long[0], lengths[long[0]]
            raise TextTooLongError(
                f"text {first} has {at_least}{tokens} tokens with its prompt and the model takes {self._max_tokens}"
                f"{f' ({len(long)} texts are too long)' if len(long) > 1 else ''}: split it, or pass overflow='truncate'",
                index=first,
                tokens=tokens,
                limit=self._max_tokens,
            )

    def _prompted(self, request: EmbedRequest) -> list[str]:
        titles = request.titles or (None,) * len(request.texts)
        prompt = request.prompt
        if prompt is None:
            prompt = choose_prompt(self._prompts, request.prompt_name)
        return [prompted(text, prompt, title) for text, title in zip(request.texts, titles, strict=True)]

    def _tables(
        self, jobs: Sequence[EmbeddingJob], packing: Packing
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
        """The step's tables (plan.op) for the texts of a packing."""
        texts = [jobs[number].ids[index] for number, index in packing]
        lengths = np.array([len(ids) for ids in texts])
        first = np.cumsum(lengths) - lengths
        rows = np.zeros((int(lengths.sum()), 4), np.uint32)
        rows[:, 0] = np.concatenate(texts)
        rows[:, 1] = np.arange(len(rows)) - np.repeat(first, lengths)
        rows[:, 2] = np.repeat(np.arange(len(texts)), lengths)
        slots = np.zeros((len(texts), 4), np.uint32)
        slots[:, 0], slots[:, 1] = first, lengths
        slots[:, 2] = [jobs[number].dimensions for number, _ in packing]
        return rows, slots


def _typed(
    vectors: npt.NDArray[np.float32], dtype: str
) -> npt.NDArray[np.float32] | npt.NDArray[np.int8] | npt.NDArray[np.uint8]:
    """Unit vectors in the output type: values lie in [-1, 1]."""
    if dtype == "int8":
        return np.rint(vectors * 127).astype(np.int8)
    if dtype == "binary":
        return np.packbits(vectors > 0, axis=1)
    return vectors
