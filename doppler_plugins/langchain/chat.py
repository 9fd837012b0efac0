"""`ChatDoppler`: LangChain's chat model over this project's engine. It only translates.

One call is one request; the engine merges requests that are under way together, so that batches and tasks of one
model run side by side. Async methods await the engine and never block the event loop.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Self

from pydantic import model_validator

from doppler_core.engine.request import GenerateResult
from doppler_plugins.adapters import generating
from doppler_plugins.adapters.extras import missing_extra
from doppler_plugins.adapters.generation_words import GenerationWords, request_of
from doppler_plugins.adapters.tools import chosen_tool, tool_names

try:
    from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
    from langchain_core.language_models.base import LangSmithParams
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import BaseMessage
    from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
    from langchain_core.runnables import Runnable
except ModuleNotFoundError as error:
    raise missing_extra("langchain", error) from error

from doppler_plugins.langchain.answer import Answer
from doppler_plugins.langchain.call import (
    PROVIDER,
    Call,
    chat_call,
    identifying_params,
    is_cached,
    keyed,
    traced,
)
from doppler_plugins.langchain.counting import countable
from doppler_plugins.langchain.errors import translated
from doppler_plugins.langchain.messages import core_messages
from doppler_plugins.langchain.profile import LazyProfile
from doppler_plugins.langchain.structured import Method, structured
from doppler_plugins.langchain.tools import AnyTool, tool_mappings


class ChatDoppler(GenerationWords, BaseChatModel):
    """A chat model with tools, structured answers and reasoning, as far as the model has them.

        model = ChatDoppler(model="hf:google/gemma-4-E2B-it", temperature=0)
        model.invoke("Why do owls fly without a sound?")

    The words are those of `GenerationWords`, and BaseChatModel's own. A call may say most of them otherwise
    (`model.bind(temperature=1)`), `model` too, and what its answer may be: `response_format`, or a `grammar` of core.

    Constructing one opens nothing; the first call does, or the first look into `profile`, which waits for it: where an
    agent with a `response_format` looks into it on an event loop, `await model.awarmup()` before.
    """

    @model_validator(mode="before")
    @classmethod
    def _forget_profile(cls, words: Any) -> Any:
        # Of the object these words were copied from: it would be read here, and belong to another model.
        if isinstance(words, Mapping) and isinstance(words.get("profile"), LazyProfile):
            return {name: value for name, value in words.items() if name != "profile"}
        return words

    @model_validator(mode="after")
    def _introduce(self) -> Self:
        from doppler_plugins import __version__

        if self.profile is None:
            self.__dict__["profile"] = LazyProfile(self._lazy)
        self._add_version("doppler-plugins", __version__)
        return self

    def bind_tools(
        self,
        tools: Sequence[AnyTool],
        *,
        tool_choice: str | bool | Mapping[str, Any] | None = None,
        strict: bool | None = None,
        parallel_tool_calls: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[Any, Any]:
        """This model with tools to call.

        tools: functions, pydantic classes, BaseTools, or mappings of OpenAI, Anthropic or JSON Schema.
        tool_choice: "auto" (None), "none" (False), "any" or "required" (True), a tool's name, or OpenAI's and Anthropic's
            mappings for these.
        parallel_tool_calls: False = one call in a turn at most.
        strict: True = calls are held to their schemas though the model's `constrain_tools` is False; else that counts.
        """
        with translated():
            said: dict[str, Any] = {"tools": tool_mappings(tools)}
            # Two of one name are bound, as by any model of LangChain's, and refused when they are offered.
            names = [name for tool in said["tools"] for name in tool_names([tool])]
            if tool_choice is not None:
                said["tool_choice"] = chosen_tool(tool_choice, names)
        beside = {"parallel_tool_calls": parallel_tool_calls, "strict": strict}
        said |= {name: value for name, value in beside.items() if value is not None}
        return self.bind(**said, **kwargs)

    def with_structured_output(
        self,
        schema: Mapping[str, Any] | type | None = None,
        *,
        method: Method = "json_schema",
        include_raw: bool = False,
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[Any, Any]:
        """This model with its answer held to a schema while it is made, and read.

        schema: a pydantic class (the answer is one of it), a TypedDict, a JSON schema or an OpenAI function (a dict).
        method: "json_schema" = the text is JSON of the schema; "function_calling" = a call of a tool with that schema;
            "json_mode" = the same as "json_schema", and without a schema any JSON object.
        include_raw: give {"raw": message, "parsed": data or None, "parsing_error": error or None}.
        """
        with translated():
            return structured(self, schema, method, include_raw, strict, kwargs)

    def get_token_ids(self, text: str) -> list[int]:
        """The tokens of a text by itself, of this model's own tokenizer."""
        if self.custom_get_token_ids is not None:
            return self.custom_get_token_ids(text)
        with translated():
            return generating.token_ids(self._lazy, text)

    def get_num_tokens_from_messages(
        self, messages: Sequence[BaseMessage], tools: Sequence[Any] | None = None
    ) -> int:
        """Tokens of a conversation as this model runs it: chat format, thinking, tools, and the turn it would begin,
        included: the `input_tokens` of the same call.

        A part of a conversation that no model could go on from (it begins with a tool's result, or ends with a call)
        is counted as the shortest one that holds it.
        """
        if not messages:
            return 0
        with translated():
            offered = tuple(tool_mappings(tools or ()))
            request = request_of(self, countable(core_messages(messages)), {}, tools=offered)
            return generating.count_tokens(self._lazy, request)

    @property
    def _llm_type(self) -> str:
        return "chat-doppler"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return identifying_params(self)

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        params = super()._get_ls_params(stop=stop or list(self.stop) or None, **kwargs)
        return traced(self, params, kwargs)

    def _get_llm_string(self, stop: list[str] | None = None, **kwargs: Any) -> str:
        # The key of a cache: words can't tell that a folder holds other weights now.
        with translated():
            made_by = generating.identity(self.lazy_engine(kwargs))
            said = keyed(kwargs)
        return f"{super()._get_llm_string(stop=stop, **said)} {made_by}"

    async def _agenerate_with_cache(self, *arguments: Any, **kwargs: Any) -> ChatResult:
        if is_cached(self.cache):
            # The key of a cache asks the open model; here the wait for it holds up nobody.
            with translated():
                await generating.aopened(self.lazy_engine(kwargs))
        return await super()._agenerate_with_cache(*arguments, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        with translated():
            call = chat_call(self, messages, stop, kwargs)
            answer = _answer(call)
            if run_manager is None or not run_manager.handlers:
                return _whole(answer, generating.generate(call.lazy, call.request, call.timeout))
            for delta in generating.stream(call.lazy, call.request, call.timeout):
                for chunk in answer.chunks(delta):
                    run_manager.on_llm_new_token(chunk.text, chunk=chunk)
        return _result(answer)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        with translated():
            call = chat_call(self, messages, stop, kwargs)
            answer = _answer(call)
            if run_manager is None or not run_manager.handlers:
                return _whole(answer, await generating.agenerate(call.lazy, call.request, call.timeout))
            async for delta in generating.astream(call.lazy, call.request, call.timeout):
                for chunk in answer.chunks(delta):
                    await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
        return _result(answer)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        with translated():
            call = chat_call(self, messages, stop, kwargs)
            answer = _answer(call)
            for delta in generating.stream(call.lazy, call.request, call.timeout):
                for chunk in answer.chunks(delta):
                    if run_manager is not None:
                        run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        with translated():
            call = chat_call(self, messages, stop, kwargs)
            answer = _answer(call)
            async for delta in generating.astream(call.lazy, call.request, call.timeout):
                for chunk in answer.chunks(delta):
                    if run_manager is not None:
                        await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk


def init_chat_model(model: str, **words: Any) -> ChatDoppler:
    """`ChatDoppler(model=model, **words)`; `model` may begin with "doppler:". It opens nothing.

    LangChain's function of this name has a closed list of providers, and can't know of this one.
    """
    return ChatDoppler(model=model.removeprefix(f"{PROVIDER}:"), **words)


def _answer(call: Call) -> Answer:
    request = call.request
    plain = not (request.drafts and (request.thinking or request.tools))
    return Answer(call.model, lambda: generating.pieces(call.lazy), plain)


def _whole(answer: Answer, result: GenerateResult) -> ChatResult:
    for _ in answer.chunks(generating.whole(result)):
        pass
    return _result(answer)


def _result(answer: Answer) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=answer.message())])
