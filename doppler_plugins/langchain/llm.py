"""`DopplerLLM`: LangChain's text model over this project's engine: a text in, what follows it out.

All texts of a batch are submitted at once and run together. Async methods await the engine and never block the event
loop.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict
from types import MappingProxyType
from typing import Any, Self

from pydantic import model_validator

from doppler_core.engine.request import Delta, GenerateResult
from doppler_plugins.adapters import generating
from doppler_plugins.adapters.drafts import canvas_figures, draft_of
from doppler_plugins.adapters.extras import missing_extra
from doppler_plugins.adapters.generation_words import GenerationWords

try:
    from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
    from langchain_core.language_models.base import LangSmithParams
    from langchain_core.language_models.llms import BaseLLM
    from langchain_core.outputs import Generation, GenerationChunk, LLMResult
except ModuleNotFoundError as error:
    raise missing_extra("langchain", error) from error

from doppler_plugins.langchain.answer import openai_logprobs, usage_metadata
from doppler_plugins.langchain.call import (
    KEYED,
    Call,
    identifying_params,
    is_cached,
    keyed,
    text_calls,
    traced,
)
from doppler_plugins.langchain.errors import translated

# BaseLLM makes the key of a cache of the constructor's words alone. What a call says otherwise, and the open model's
# identity (words can't tell that a folder holds other weights now), reach it this way, in each thread and task by itself.
_KEY: ContextVar[Mapping[str, Any]] = ContextVar("_KEY", default=MappingProxyType({}))


class DopplerLLM(GenerationWords, BaseLLM):
    """A model that goes on with a text, for base models and for prompts put together by hand.

        model = DopplerLLM(model="hf:google/gemma-3-270m", max_tokens=40)
        model.batch(["The owl", "The pond"])

    The words are those of `GenerationWords`, and BaseLLM's own. Constructing one opens nothing; the first text does. A
    chat model's control tokens are text here: a conversation is for `ChatDoppler`.
    """

    @model_validator(mode="after")
    def _introduce(self) -> Self:
        from doppler_plugins import __version__

        self._add_version("doppler-plugins", __version__)
        return self

    def get_token_ids(self, text: str) -> list[int]:
        """The tokens of a text by itself, of this model's own tokenizer."""
        if self.custom_get_token_ids is not None:
            return self.custom_get_token_ids(text)
        with translated():
            return generating.token_ids(self._lazy, text)

    def generate(self, prompts: list[str], *arguments: Any, **kwargs: Any) -> LLMResult:
        """What follows each text."""
        made_by = ""
        if is_cached(self.cache):
            with translated():
                made_by = generating.identity(self.lazy_engine(kwargs))
        with _keyed(kwargs, made_by):
            return super().generate(prompts, *arguments, **kwargs)

    async def agenerate(self, prompts: list[str], *arguments: Any, **kwargs: Any) -> LLMResult:
        """`generate` on an event loop."""
        made_by = ""
        if is_cached(self.cache):
            with translated():
                lazy = self.lazy_engine(kwargs)
                await generating.aopened(lazy)
                made_by = generating.identity(lazy)
        with _keyed(kwargs, made_by):
            return await super().agenerate(prompts, *arguments, **kwargs)

    @property
    def _llm_type(self) -> str:
        return "doppler-llm"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {**identifying_params(self), **_KEY.get()}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        params = super()._get_ls_params(stop=stop or list(self.stop) or None, **kwargs)
        return traced(self, params, kwargs)

    def _generate(
        self,
        prompts: list[str],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> LLMResult:
        with translated():
            calls = text_calls(self, prompts, stop, kwargs)
            if not calls:
                return LLMResult(generations=[])
            requests = [call.request for call in calls]
            return _llm_result(calls, generating.generate_all(calls[0].lazy, requests, calls[0].timeout))

    async def _agenerate(
        self,
        prompts: list[str],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> LLMResult:
        with translated():
            calls = text_calls(self, prompts, stop, kwargs)
            if not calls:
                return LLMResult(generations=[])
            requests = [call.request for call in calls]
            return _llm_result(
                calls, await generating.agenerate_all(calls[0].lazy, requests, calls[0].timeout)
            )

    def _stream(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[GenerationChunk]:
        with translated():
            (call,) = text_calls(self, [prompt], stop, kwargs)
            for delta in generating.stream(call.lazy, call.request, call.timeout):
                chunk = _chunk(call, delta)
                if run_manager is not None:
                    run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk

    async def _astream(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[GenerationChunk]:
        with translated():
            (call,) = text_calls(self, [prompt], stop, kwargs)
            async for delta in generating.astream(call.lazy, call.request, call.timeout):
                chunk = _chunk(call, delta)
                if run_manager is not None:
                    await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk


@contextmanager
def _keyed(said: Mapping[str, Any], made_by: str) -> Iterator[None]:
    with translated():
        own = keyed({name: value for name, value in said.items() if name in KEYED})
    token = _KEY.set({**own, "made_by": made_by} if made_by else own)
    try:
        yield
    finally:
        _KEY.reset(token)


def _llm_result(calls: Sequence[Call], results: Sequence[GenerateResult]) -> LLMResult:
    generations = [
        [Generation(text=result.text, generation_info=_info(call, result))]
        for call, result in zip(calls, results, strict=True)
    ]
    prompt = sum(result.usage.prompt_tokens for result in results)
    made = sum(result.usage.completion_tokens for result in results)
    usage = {"prompt_tokens": prompt, "completion_tokens": made, "total_tokens": prompt + made}
    return LLMResult(
        generations=list(generations), llm_output={"token_usage": usage, "model_name": calls[0].model}
    )


def _chunk(call: Call, delta: Delta) -> GenerationChunk:
    return GenerationChunk(text=delta.text, generation_info=_info(call, delta) or None)


def _info(call: Call, said: Delta | GenerateResult) -> dict[str, Any]:
    """What there is to say beside the text: drafts and logprobs with every part, the rest with the last one."""
    info: dict[str, Any] = {}
    if isinstance(said, Delta) and said.canvas is not None:
        info["drafts"] = [draft_of(said.canvas)]
    if said.logprobs:
        info["logprobs"] = {"content": openai_logprobs(said.logprobs, generating.pieces(call.lazy))}
    if said.finish_reason is None:
        return info
    info |= {"model_name": call.model, "finish_reason": said.finish_reason}
    if isinstance(said.stop, str):
        info["stop_sequence"] = said.stop
    info |= canvas_figures(said.usage)
    if said.usage is not None:
        info["usage_metadata"] = dict(usage_metadata(said.usage))
    if said.timings is not None:
        info["timings"] = asdict(said.timings)
    return info
