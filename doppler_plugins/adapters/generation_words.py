"""The constructor words of the adapters that generate text, and the fields of a request that they make.

Takes keyword arguments of a constructor and of a call; gives fields of GenerateRequest. What only the model knows (its
context, its chat format) is checked at the first use.
"""

import re
import threading
from collections.abc import Mapping, Sequence
from numbers import Real
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import BeforeValidator, Field, SkipValidation, StrictInt, model_validator

from doppler_core.engine.generate_check import check_count, check_flag, check_generate_request
from doppler_core.engine.request import GenerateRequest, PromptOverflow
from doppler_core.errors import InputError
from doppler_core.plan.sampling import TOP_LOGPROBS
from doppler_plugins.adapters.lazy_engine import LazyEngine
from doppler_plugins.adapters.model_words import ModelWords, Word, meant, path_as_text

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


_TOKEN_ID = re.compile(r"\d{1,9}", re.ASCII)


def _texts(value: Any) -> Any:
    """Stop texts: one may stand alone."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, Sequence) else value


def _token_ids(value: Any) -> Any:
    """JSON has no keys but texts."""
    if not isinstance(value, Mapping):
        return value
    is_text = {key: isinstance(key, str) and _TOKEN_ID.fullmatch(key) is not None for key in value}
    return {int(key) if is_text[key] else key: one for key, one in value.items()}


T = TypeVar("T")
# A word that a call may say otherwise: what it may be, `request_of` checks, whoever says it.
Said = Annotated[T, SkipValidation, Field(frozen=True)]


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

    max_tokens: Said[int | None] = None
    """Most tokens of an answer; None = a quarter of the context, of canvases as many as the manifest says."""
    temperature: Said[float | None] = None
    """0 = the likeliest token, always."""
    top_k: Said[int | None] = None
    """Choose among so many likeliest tokens; 0 = all."""
    top_p: Said[float | None] = None
    """Choose among the likeliest tokens that have this probability together."""
    min_p: Said[float | None] = None
    """Choose among tokens at least this probable, relative to the likeliest."""
    presence_penalty: Said[float | None] = None
    """Over 0: tokens that the answer has already become less likely."""
    frequency_penalty: Said[float | None] = None
    """The same, for each time that the answer has them."""
    repetition_penalty: Said[float | None] = None
    """Over 1: tokens of prompt and answer become less likely."""
    logit_bias: Annotated[Said[Mapping[int, float] | None], BeforeValidator(_token_ids)] = None
    """Added to the logits of token ids, which may be texts, as JSON has them."""
    seed: Said[int | None] = None
    """The same seed, the same text; None = another each time."""
    stop: Annotated[Said[tuple[str, ...]], BeforeValidator(_texts)] = ()
    """Texts that end the answer and are not in it. Also `stop_sequences`."""
    logprobs: Said[bool] = False
    """Give the logarithm of each token's probability."""
    top_logprobs: Said[int | None] = None
    """And of so many likeliest tokens beside it."""
    thinking: Said[bool] = False
    """Let a model that can reason before it answers."""
    constrain_tools: Said[bool | None] = None
    """Hold tool calls to the tools' names and schemas while they are made; None = where the model can."""
    steps: Said[int | None] = None
    """Most steps of a canvas, of a model that makes its text in canvases; None = as many as it was made for."""
    drafts: Said[bool] = False
    """Let a stream show each canvas of such a model after each of its steps."""
    chat_format: Said[str | None] = None
    """"gemma3" or "gemma4", in place of the model's own."""
    overflow: Said[PromptOverflow] = "error"
    """A prompt over the context: "error", or "truncate_left" drops what is oldest."""
    timeout: Said[float | None] = None
    """Seconds after which an answer is given up with TimeoutError; None = never."""

    @model_validator(mode="before")
    @classmethod
    def _leave_unsaid(cls, words: Any) -> Any:
        # As in a call, None is what nobody has said.
        if not isinstance(words, Mapping):
            return words
        return {
            name: value
            for name, value in words.items()
            if value is not None or cls.aliases.get(name, name) not in CALL_WORDS
        }

    @model_validator(mode="after")
    def _check_words(self) -> Self:
        request_of(self, "", {})
        timeout_of(self, {})
        return self

    def lazy_engine(self, call: Mapping[str, Any]) -> LazyEngine:
        """The engine, not open yet, of these words' model, or of another that a call names, with the same settings."""
        model = path_as_text(said_in(self, call).get("model", self.model))
        if not isinstance(model, str) or not model:
            raise InputError(f"model={model!r}: expected the name of a model, or its path")
        return self._lazy.of(model)


def said_in(words: GenerationWords, call: Mapping[str, Any]) -> dict[str, Any]:
    """What a call says, each word by the name that it has here. None = as the constructor said."""
    said: dict[str, Any] = {}
    for name, value in call.items():
        if value is None:
            continue
        word = words.aliases.get(name, name)
        if said.setdefault(word, value) is not value and said[word] != value:
            raise InputError(f"{name}={value!r} and {said[word]!r}: two names of one word, {word!r}")
    return said


def request_of(
    words: GenerationWords, prompt: Any, call: Mapping[str, Any], beside: Sequence[str] = (), **fields: Any
) -> GenerateRequest:
    """A request of the constructor's words, and what a call says in their place.

    Raises InputError for a word of `call` that is none of CALL_WORDS, and for a value that no model could serve, whoever
    said it. `timeout` is no field. beside: other words of calls, to be offered for a misspelt one. fields: of the request,
    that are no words.
    """
    for name, value in call.items():
        if value is not None and words.aliases.get(name, name) not in CALL_WORDS:
            raise InputError(_unknown(words, name, beside))
    said = said_in(words, call)
    chosen = {name: said.get(name, getattr(words, name)) for name in FIELDS}
    chosen["logit_bias"] = _token_ids(chosen["logit_bias"])
    chosen["stop"] = _texts(said.get("stop", words.stop))
    chosen["logprobs"] = _logprobs(words, said)
    request = GenerateRequest(prompt, **chosen, **fields)
    check_generate_request(request)
    return request


def timeout_of(words: GenerationWords, call: Mapping[str, Any]) -> float | None:
    """Seconds that a call may take, None where nobody said. InputError for what is no time to wait."""
    seconds: Any = said_in(words, call).get("timeout", words.timeout)
    if seconds is None:
        return None
    is_number = isinstance(seconds, Real) and not isinstance(seconds, bool)
    if not is_number or not seconds > 0:
        raise InputError(f"timeout={seconds!r}: expected seconds, more than 0, or None for ever")
    return float(min(seconds, threading.TIMEOUT_MAX))


def _unknown(words: GenerationWords, name: str, beside: Sequence[str]) -> str:
    if words.aliases.get(name, name) in type(words).model_fields:
        return f"{name!r} is a word of the constructor: model_copy(update={{{name!r}: ...}}) makes a changed copy"
    aliases = [alias for alias, word in words.aliases.items() if word in CALL_WORDS]
    return f"a call has no word {name!r}: {meant(name, CALL_WORDS, [*aliases, *beside])}"


def _logprobs(words: GenerationWords, said: Mapping[str, Any]) -> int | None:
    """None = none; else of so many likeliest tokens beside each."""
    wanted, top = said.get("logprobs", words.logprobs), said.get("top_logprobs", words.top_logprobs)
    check_flag("logprobs", wanted)
    check_count("top_logprobs", top, TOP_LOGPROBS)
    if said.get("logprobs") is False and "top_logprobs" not in said:
        return None  # whatever the constructor said
    return 0 if wanted and top is None else top
