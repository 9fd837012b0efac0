"""LlamaIndex's structured predictions through grammars: what comes validates, whichever model makes it.

Takes a prompt and a pydantic class; gives objects of it. Where the model takes no grammar, or another
`pydantic_program_mode` is set, LlamaIndex's own programs do it.
"""

from collections.abc import AsyncGenerator, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from llama_index.core.base.llms.types import ChatResponse, CompletionResponse
from llama_index.core.instrumentation.events.llm import (
    LLMStructuredPredictEndEvent,
    LLMStructuredPredictStartEvent,
)
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.program.utils import FlexibleModel, create_flexible_model
from llama_index.core.prompts import PromptTemplate
from llama_index.core.types import PydanticProgramMode
from llama_index_instrumentation import get_dispatcher
from pydantic import BaseModel, PrivateAttr
from pydantic_core import from_json

from doppler_core.engine.request import Capabilities
from doppler_core.errors import InputError, OutputError
from doppler_core.text.grammar import JsonSchema
from doppler_plugins.adapters.generating import aopened, capabilities
from doppler_plugins.adapters.generation_words import GenerationWords
from doppler_plugins.adapters.json_answers import json_value
from doppler_plugins.adapters.schemas import class_schema
from doppler_plugins.llama_index.requests import calls_tools, is_chat

ModelT = TypeVar("ModelT", bound=BaseModel)

_dispatcher = get_dispatcher(__name__)
# What a program that calls tools would be told; here nothing is called.
_OF_TOOLS = ("tool_required", "tool_choice", "allow_parallel_tool_calls")


@dataclass(frozen=True)
class _Question:
    """How a prediction is asked: which of the call forms, with what."""

    form: Literal["chat", "complete"]
    prompt: Any
    words: Mapping[str, Any]


class StructuredPrediction(GenerationWords, FunctionCallingLLM):
    """The part of DopplerLLM that makes objects."""

    _known: Capabilities | None = PrivateAttr(default=None)

    def structured_predict(
        self,
        output_cls: type[ModelT],
        prompt: PromptTemplate,
        llm_kwargs: dict[str, Any] | None = None,
        **prompt_args: Any,
    ) -> ModelT:
        """An object of `output_cls`, made under its JSON schema. Raises InputError for a schema that no grammar can
        hold, OutputError for an answer that was cut off, and pydantic's ValidationError for what only its own
        validators refuse."""
        if not self._makes_by_grammar():
            made: ModelT = super().structured_predict(output_cls, prompt, llm_kwargs, **prompt_args)
            return made
        _started(output_cls, prompt, prompt_args)
        question = self._question(output_cls, prompt, llm_kwargs, prompt_args)
        found = _read(output_cls, getattr(self, question.form)(question.prompt, **question.words))
        _dispatcher.event(LLMStructuredPredictEndEvent(output=found))
        return found

    async def astructured_predict(
        self,
        output_cls: type[ModelT],
        prompt: PromptTemplate,
        llm_kwargs: dict[str, Any] | None = None,
        **prompt_args: Any,
    ) -> ModelT:
        """`structured_predict` on an event loop."""
        await aopened(self._lazy)
        if not self._makes_by_grammar():
            made: ModelT = await super().astructured_predict(output_cls, prompt, llm_kwargs, **prompt_args)
            return made
        _started(output_cls, prompt, prompt_args)
        question = self._question(output_cls, prompt, llm_kwargs, prompt_args)
        found = _read(output_cls, await getattr(self, f"a{question.form}")(question.prompt, **question.words))
        _dispatcher.event(LLMStructuredPredictEndEvent(output=found))
        return found

    def _structured_stream_call(
        self,
        output_cls: type[ModelT],
        prompt: PromptTemplate,
        llm_kwargs: dict[str, Any] | None = None,
        **prompt_args: Any,
    ) -> Generator[Any]:
        """Objects with what has come so far, every field optional; the last one is of `output_cls`."""
        if not self._makes_by_grammar():
            self._check_held()
            yield from super()._structured_stream_call(output_cls, prompt, llm_kwargs, **prompt_args)
            return
        question, partial = self._question(output_cls, prompt, llm_kwargs, prompt_args), _Partial(output_cls)
        for response in getattr(self, f"stream_{question.form}")(question.prompt, **question.words):
            yield from partial.news(response)
        yield _read(output_cls, response)

    async def _structured_astream_call(
        self,
        output_cls: type[ModelT],
        prompt: PromptTemplate,
        llm_kwargs: dict[str, Any] | None = None,
        **prompt_args: Any,
    ) -> AsyncGenerator[Any]:
        await aopened(self._lazy)
        if not self._makes_by_grammar():
            self._check_held()
            return await super()._structured_astream_call(output_cls, prompt, llm_kwargs, **prompt_args)
        question, partial = self._question(output_cls, prompt, llm_kwargs, prompt_args), _Partial(output_cls)

        async def objects() -> AsyncGenerator[Any]:
            responses = await getattr(self, f"astream_{question.form}")(question.prompt, **question.words)
            async for response in responses:
                for found in partial.news(response):
                    yield found
            yield _read(output_cls, response)

        return objects()

    def _capabilities(self) -> Capabilities:
        """What the model can do; known once it was open."""
        if self._known is None:
            self._known = capabilities(self._lazy)
        return self._known

    def _makes_by_grammar(self) -> bool:
        return self.pydantic_program_mode == PydanticProgramMode.DEFAULT and self._capabilities().structured

    def _check_held(self) -> None:
        """InputError where a call has to come, and nothing holds the model to it.

        LlamaIndex's program asks for a call that has to come, which such a model refuses, but while it streams for one
        that may come: a text would pass for an object without values.
        """
        can, mode = self._capabilities(), self.pydantic_program_mode
        by_call = mode == PydanticProgramMode.FUNCTION or (
            mode == PydanticProgramMode.DEFAULT and calls_tools(can, self)
        )
        if by_call and not can.structured:
            raise InputError(
                "an object is streamed as a tool's call: the model itself says whether it calls "
                "(capabilities.structured is False): use structured_predict with "
                "pydantic_program_mode=PydanticProgramMode.LLM, which asks in the prompt, and checks what comes"
            )

    def _question(
        self,
        output_cls: type[BaseModel],
        prompt: PromptTemplate,
        llm_kwargs: Mapping[str, Any] | None,
        prompt_args: Mapping[str, Any],
    ) -> _Question:
        words = {name: value for name, value in (llm_kwargs or {}).items() if name not in _OF_TOOLS}
        words["grammar"] = JsonSchema(class_schema(output_cls))
        if is_chat(self._capabilities(), self):
            messages = self._extend_messages(prompt.format_messages(llm=self, **prompt_args))
            return _Question("chat", messages, words)
        text = self._extend_prompt(prompt.format(llm=self, **prompt_args))
        return _Question("complete", text, {**words, "formatted": True})


class _Partial:
    """The objects of a stream on their way, one for each change."""

    def __init__(self, output_cls: type[BaseModel]) -> None:
        self._loose = create_flexible_model(output_cls)
        self._last: Any = None

    def news(self, response: ChatResponse | CompletionResponse) -> Iterator[FlexibleModel]:
        """The object up to this response, if it is another than the one before."""
        try:
            found = from_json(_text(response), allow_partial="trailing-strings")
        except ValueError:
            return
        if isinstance(found, dict) and found != self._last:
            self._last = found
            yield self._loose(**found)


def _started(output_cls: type[BaseModel], prompt: PromptTemplate, prompt_args: dict[str, Any]) -> None:
    _dispatcher.event(
        LLMStructuredPredictStartEvent(output_cls=output_cls, template=prompt, template_args=prompt_args)
    )


def _read(output_cls: type[ModelT], response: ChatResponse | CompletionResponse) -> ModelT:
    text, said = _text(response), response.additional_kwargs
    try:
        json_value(text, said.get("finish_reason"), said.get("stop_sequence"))
    except OutputError as error:
        raise OutputError(f"{output_cls.__name__}: {error}") from error
    return output_cls.model_validate_json(text)


def _text(response: ChatResponse | CompletionResponse) -> str:
    return response.text if isinstance(response, CompletionResponse) else response.message.content or ""
