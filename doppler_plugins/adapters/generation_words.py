"""The constructor words of the adapters that generate text, and the fields of a request that they make.

Takes keyword arguments of a constructor and of a call; gives fields of GenerateRequest. What only the model knows (its
context, its chat format) is checked at the first use.
"""

from collections.abc import Mapping, Sequence
from numbers import Real
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, StrictBool, StrictInt, model_validator

from doppler_core.engine.request import GenerateRequest, PromptOverflow
from doppler_core.engine.sampling_check import check_sampling
from doppler_core.errors import InputError
from doppler_core.plan.sampling import TOP_LOGPROBS
from doppler_plugins.adapters.lazy_engine import LazyEngine
from doppler_plugins.adapters.model_words import ModelWords, Word, meant

#: Words that are fields of a request as they are.
FIELDS = (
    "max_tokens",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "logit_bias",
    "seed",
    "chat_format",
    "overflow",
    "thinking",
    "constrain_tools",
    "steps",
    "drafts",
)
#: Words that a call may say otherwise than the constructor.
CALL_WORDS = (*FIELDS, "stop", "logprobs", "top_logprobs", "timeout")

_SAMPLING = FIELDS[1 : FIELDS.index("chat_format")]


def _texts(value: Any) -> Any:
    return () if value is None else (value,) if isinstance(value, str) else value


Stops = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(_texts)]
Count = Annotated[StrictInt, Field(ge=0)]


class GenerationWords(ModelWords):
    """The words of every model, and how it generates. What can't be assigned, copied or pickled is as in `ModelWords`.

    A word of sampling left at None is as the checkpoint's generation_config.json says; where that says nothing, the
    likeliest token comes.
    """

    aliases: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "model_name": "model",
            "stop_sequences": "stop",
            "max_completion_tokens": "max_tokens",
            "max_new_tokens": "max_tokens",
        }
    )
    ignored: ClassVar[frozenset[str]] = frozenset(
        {"api_key", "base_url", "max_retries", "model_provider", "organization", "streaming", "stream_usage"}
    )

    slots: Word[StrictInt | None] = None
    """Sequences that the model works on at once; None = 4, and fewer where memory is short."""

    max_tokens: Word[Count | None] = None
    """Most tokens of an answer; None = as many as the context has room for."""
    temperature: Word[float | None] = None
    """0 = the likeliest token, always."""
    top_k: Word[StrictInt | None] = None
    """Choose among so many likeliest tokens; 0 = all."""
    top_p: Word[float | None] = None
    """Choose among the likeliest tokens that have this probability together."""
    min_p: Word[float | None] = None
    """Choose among tokens at least this probable, relative to the likeliest."""
    presence_penalty: Word[float | None] = None
    """Over 0: tokens that the answer has already become less likely."""
    frequency_penalty: Word[float | None] = None
    """The same, for each time that the answer has them."""
    repetition_penalty: Word[float | None] = None
    """Over 1: tokens of prompt and answer become less likely."""
    logit_bias: Word[Mapping[int, float] | None] = None
    """Added to the logits of token ids."""
    seed: Word[StrictInt | None] = None
    """The same seed, the same text; None = another each time."""
    stop: Word[Stops] = ()
    """Texts that end the answer and are not in it. Also `stop_sequences`."""
    logprobs: Word[StrictBool] = False
    """Give the logarithm of each token's probability."""
    top_logprobs: Word[Annotated[StrictInt, Field(ge=0, le=TOP_LOGPROBS)] | None] = None
    """And of so many likeliest tokens beside it."""
    thinking: Word[StrictBool] = False
    """Let a model that can reason before it answers."""
    constrain_tools: Word[StrictBool] = True
    """Hold tool calls to the tools' names and schemas while they are made."""
    steps: Word[Annotated[StrictInt, Field(ge=1)] | None] = None
    """Most steps of a canvas, of a model that makes its text in canvases; None = as many as it was made for."""
    drafts: Word[StrictBool] = False
    """Let a stream show each canvas of such a model after each of its steps."""
    chat_format: Word[str | None] = None
    """"gemma3" or "gemma4", in place of the model's own."""
    overflow: Word[PromptOverflow] = "error"
    """A prompt over the context: "error", or "truncate_left" drops what is oldest."""
    timeout: Word[Annotated[float, Field(gt=0)] | None] = None
    """Seconds after which an answer is given up with TimeoutError; None = never."""

    @model_validator(mode="after")
    def _check_sampling(self) -> Self:
        check_sampling(GenerateRequest("", **{name: getattr(self, name) for name in _SAMPLING}))
        return self

    def lazy_engine(self, model: str | None = None) -> LazyEngine:
        """The engine, not open yet, of these words' model, or of another that a call names, with the same settings."""
        return self._lazy if model is None else self._lazy.of(model)


def request_fields(
    words: GenerationWords, call: Mapping[str, Any], beside: Sequence[str] = ()
) -> dict[str, Any]:
    """Fields of GenerateRequest: the constructor's words, and what a call says in their place.

    None in a call = as the constructor said. Raises InputError for a word of `call` that is none of CALL_WORDS; values
    are the engine's to check. `timeout` is no field. beside: other words of calls, to be offered for a misspelt one.
    """
    said = _said(words, call)
    known = [*CALL_WORDS, *words.aliases]
    for word in said:
        if word not in known:
            raise InputError(
                f"a call has no word {word!r}: {meant(str(word), CALL_WORDS, [*words.aliases, *beside])}"
            )
    fields = {name: said.get(name, getattr(words, name)) for name in FIELDS}
    top = said.get("top_logprobs", words.top_logprobs)
    if top is None and said.get("logprobs", words.logprobs):
        top = 0
    if said.get("logprobs") is False and "top_logprobs" not in said:
        top = None  # whatever the constructor said
    stop = _texts(said.get("stop", words.stop))
    if not isinstance(stop, Sequence):
        raise InputError(f"stop is {type(stop).__name__}: expected a text, or a list of texts")
    return {**fields, "stop": tuple(stop), "logprobs": top}


def timeout_of(words: GenerationWords, call: Mapping[str, Any]) -> float | None:
    """Seconds that a call may take, None where nobody said. InputError for what is no time to wait."""
    said = _said(words, call).get("timeout")
    if said is None:
        return words.timeout
    if isinstance(said, bool) or not isinstance(said, Real) or not float(said) > 0:
        raise InputError(f"timeout={said!r}: expected seconds, more than 0, or None for ever")
    return float(said)


def _said(words: GenerationWords, call: Mapping[str, Any]) -> dict[str, Any]:
    return {words.aliases.get(name, name): value for name, value in call.items() if value is not None}
