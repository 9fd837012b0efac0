"""One call of a LangChain model as a request.

Takes an adapter's words and what `invoke`, `bind` and agents pass; gives the engine to ask, the request, and how long it
may take.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.caches import BaseCache
from langchain_core.globals import get_llm_cache
from langchain_core.language_models.base import LangSmithParams
from langchain_core.messages import BaseMessage

from doppler_core.engine.generate_check import check_flag
from doppler_core.engine.request import GenerateRequest
from doppler_core.errors import InputError
from doppler_plugins.adapters.generation_words import (
    CALL_WORDS,
    FIELDS,
    GenerationWords,
    request_of,
    said_in,
    timeout_of,
)
from doppler_plugins.adapters.lazy_engine import LazyEngine
from doppler_plugins.adapters.tools import chosen_tool, tool_names
from doppler_plugins.langchain.messages import core_messages
from doppler_plugins.langchain.schemas import json_schema
from doppler_plugins.langchain.tools import answer_grammar, tool_mappings

#: What other models' callers pass and has no meaning here.
_IGNORED = ("stream", "structured_output_format")

#: What a call may say that changes its answer.
KEYED = ("model", "grammar", "response_format", *CALL_WORDS, *GenerationWords.aliases)

PROVIDER = "doppler"

_SETTINGS = ("model", "precision", "manifest", "revision", "device", "kernel_profile", "context_length")


@dataclass(frozen=True)
class Call:
    """A request and whom to ask."""

    lazy: LazyEngine
    request: GenerateRequest
    timeout: float | None

    @property
    def model(self) -> str:
        """What the user calls the model."""
        return self.lazy.spec[0]


def chat_call(
    words: GenerationWords,
    messages: Sequence[BaseMessage],
    stop: Sequence[str] | None,
    said: Mapping[str, Any],
) -> Call:
    """A conversation as a request. said: tools, tool_choice, parallel_tool_calls, strict, response_format, grammar, model,
    and the words that a call may say. InputError for anything else."""
    said = _held(said)
    tools = tool_mappings(said.pop("tools", None) or ())
    parallel = said.pop("parallel_tool_calls", None)
    fields = {
        "tools": tuple(tools),
        "tool_choice": chosen_tool(said.pop("tool_choice", None), tool_names(tools)),
        "parallel_tool_calls": True if parallel is None else parallel,
        "grammar": answer_grammar(said.pop("response_format", None), said.pop("grammar", None)),
    }
    return _call(words, core_messages(messages), stop, said, fields)


def text_calls(
    words: GenerationWords, prompts: Sequence[str], stop: Sequence[str] | None, said: Mapping[str, Any]
) -> list[Call]:
    """A request for each text, which the model goes on with. said: grammar, response_format, model and words of a call."""
    said = dict(said)
    fields = {"grammar": answer_grammar(said.pop("response_format", None), said.pop("grammar", None))}
    return [_call(words, prompt, stop, said, fields) for prompt in prompts]


def _call(
    words: GenerationWords,
    prompt: Any,
    stop: Sequence[str] | None,
    said: Mapping[str, Any],
    fields: Mapping[str, Any],
) -> Call:
    beside = {} if stop is None else {"stop": stop}
    known = {name: value for name, value in {**said, **beside}.items() if not _has_no_meaning(words, name)}
    lazy = words.lazy_engine(known)
    chosen = {name: value for name, value in said_in(words, known).items() if name != "model"}
    return Call(lazy, request_of(words, prompt, chosen, **fields), timeout_of(words, chosen))


def _held(said: Mapping[str, Any]) -> dict[str, Any]:
    """What a call says, `strict=True` as the word that it has here. Without it the model's own word counts."""
    held = dict(said)
    strict = held.pop("strict", None)
    check_flag("strict", strict is not None and strict)
    if strict and held.get("constrain_tools") is False:
        raise InputError("strict=True and constrain_tools=False: give one of the two")
    return {**held, "constrain_tools": True} if strict else held


def _has_no_meaning(words: GenerationWords, name: str) -> bool:
    return name in _IGNORED or name in words.ignored or name.startswith(("ls_", "_"))


def is_cached(cache: BaseCache | bool | None) -> bool:
    """Whether LangChain will ask for the key of an answer, of a model with this `cache`."""
    return cache is not False and (isinstance(cache, BaseCache) or get_llm_cache() is not None)


def keyed(said: Mapping[str, Any]) -> dict[str, Any]:
    """What a call says as a cache's key can tell it apart: classes by their schemas, for two may have one name."""
    found = dict(said)
    if isinstance(described := found.get("response_format"), type):
        found["response_format"] = json_schema(described)
    if found.get("tools"):
        found["tools"] = tool_mappings(found["tools"])
    return found


def traced(words: GenerationWords, params: LangSmithParams, said: Mapping[str, Any]) -> LangSmithParams:
    """What traces tell of a call: LangChain's parameters, and whom it asks."""
    named = said.get("model") or said.get("model_name") or words.model
    return {**params, "ls_provider": PROVIDER, "ls_model_name": str(named)}


def identifying_params(words: GenerationWords) -> dict[str, Any]:
    """All words that change an answer, for traces and for the key of a cache.

    The constructor's stop texts have a name of their own: LangChain puts the call's under `stop`.
    """
    from doppler_plugins import __version__

    names = (*_SETTINGS, *FIELDS, "logprobs", "top_logprobs")
    said = {name: getattr(words, name) for name in names}
    return {**said, "stop_sequences": list(words.stop), "doppler_plugins": __version__}
