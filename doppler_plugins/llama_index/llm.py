"""`DopplerLLM`: LlamaIndex's FunctionCallingLLM over this project's engine. It only translates.

One call is one request, and requests run together; async methods await the engine and never block the event loop.
"""

from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar

from doppler_core.engine.request import Capabilities, Delta, GenerateRequest
from doppler_plugins.adapters import generating
from doppler_plugins.adapters.extras import missing_extra
from doppler_plugins.adapters.generation_words import GenerationWords, timeout_of
from doppler_plugins.adapters.tools import chosen_tool, tool_names

try:
    from llama_index.core.base.llms.generic_utils import messages_to_prompt
    from llama_index.core.base.llms.types import (
        ChatMessage,
        ChatResponse,
        ChatResponseAsyncGen,
        ChatResponseGen,
        CompletionResponse,
        CompletionResponseAsyncGen,
        CompletionResponseGen,
        LLMMetadata,
        MessageRole,
    )
    from llama_index.core.constants import DEFAULT_NUM_OUTPUTS
    from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
    from llama_index.core.llms.llm import ToolSelection, default_completion_to_prompt
    from llama_index.core.prompts import BasePromptTemplate
    from llama_index.core.tools.types import BaseTool
    from llama_index.core.types import TokenAsyncGen
except ModuleNotFoundError as error:
    raise missing_extra("llama-index", error) from error

from doppler_plugins.llama_index.messages import read_chat
from doppler_plugins.llama_index.requests import (
    calls_tools,
    chat_request,
    completion_prompt,
    is_chat,
    text_request,
)
from doppler_plugins.llama_index.responses import Growing
from doppler_plugins.llama_index.structured import StructuredPrediction
from doppler_plugins.llama_index.tools import selections, tool_mappings


@dataclass(frozen=True)
class Asked:
    """A request that is made once the model is open, from what it can do, and the seconds that its answer may take."""

    by: Callable[[Capabilities], GenerateRequest]
    timeout: float | None


class DopplerLLM(StructuredPrediction):
    """A model that generates, for LlamaIndex's agents, query engines and chat engines.

        llm = DopplerLLM(model="hf:google/gemma-4-E2B-it", max_tokens=512)
        agent = FunctionAgent(tools=[multiply], llm=llm)

    The words are those of `GenerationWords`, and LLM's own; most can be said for one call as well. Constructing one
    opens nothing; the first use does, `metadata` included: on an event loop `await llm.awarmup()` before.
    """

    aliases: ClassVar[Mapping[str, str]] = MappingProxyType(
        {**GenerationWords.aliases, "context_window": "context_length", "request_timeout": "timeout"}
    )
    ignored: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def class_name(cls) -> str:
        """The name in serialised components and in events."""
        return "DopplerLLM"

    @property
    def metadata(self) -> LLMMetadata:
        """What LlamaIndex's components ask before they use a model. Opens it, the first time.

        num_output is the most tokens of an answer, `max_tokens` or what stands for it; at most half of the context, as
        prompts need the rest.
        """
        can = self._capabilities()
        room, most = can.context_length, self.max_tokens
        if most is None:
            most = generating.answer_room(can) or DEFAULT_NUM_OUTPUTS
        return LLMMetadata(
            context_window=room,
            num_output=min(most, room // 2),
            is_chat_model=is_chat(can, self),
            is_function_calling_model=calls_tools(can, self),
            model_name=self.model,
            system_role=MessageRole.SYSTEM,
        )

    def to_payload(self) -> dict[str, Any]:
        """What events say of this object: its words. Opens nothing: each call tells it, on event loops too."""
        said = {name: getattr(self, name) for name in GenerationWords.model_fields}
        return {
            "class_name": self.class_name(),
            **{name: value for name, value in said.items() if value is not None},
        }

    def tokenizer_fn(self, text: str) -> list[int]:
        """The tokens of a text: what `Settings.tokenizer` and splitters count with."""
        return generating.token_ids(self._lazy, text)

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """The answer to a conversation. The words of a call are those of `chat_request`."""
        growing, delta = self._answer(self._chat(messages, kwargs))
        return growing.chat(delta)

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """`chat` on an event loop; cancelling the task cancels the request."""
        growing, delta = await self._aanswer(self._chat(messages, kwargs))
        return growing.chat(delta)

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        """`chat` as it comes: each response holds all so far. It begins at the first `next`."""
        deltas = self._stream(self._chat(messages, kwargs))
        return (growing.chat(delta) for growing, delta in deltas)

    @llm_chat_callback()
    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseAsyncGen:
        """`stream_chat` on an event loop; leaving the stream, or cancelling the task, cancels the request."""
        deltas = self._astream(self._chat(messages, kwargs))
        return (growing.chat(delta) async for growing, delta in deltas)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """The answer to a text, or for a base model, and where it is `formatted`, what it goes on with."""
        growing, delta = self._answer(self._complete(prompt, formatted, kwargs))
        return growing.completion(delta)

    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """`complete` on an event loop; cancelling the task cancels the request."""
        growing, delta = await self._aanswer(self._complete(prompt, formatted, kwargs))
        return growing.completion(delta)

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        """`complete` as it comes: each response holds all so far. It begins at the first `next`."""
        deltas = self._stream(self._complete(prompt, formatted, kwargs))
        return (growing.completion(delta) for growing, delta in deltas)

    @llm_completion_callback()
    async def astream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponseAsyncGen:
        """`stream_complete` on an event loop; leaving the stream, or cancelling the task, cancels the request."""
        deltas = self._astream(self._complete(prompt, formatted, kwargs))
        return (growing.completion(delta) async for growing, delta in deltas)

    async def apredict(self, prompt: BasePromptTemplate, **prompt_args: Any) -> str:
        """`predict` on an event loop, which opening the model does not hold up."""
        await generating.aopened(self._lazy)
        return await super().apredict(prompt, **prompt_args)

    async def astream(self, prompt: BasePromptTemplate, **prompt_args: Any) -> TokenAsyncGen:
        """`stream` on an event loop, which opening the model does not hold up."""
        await generating.aopened(self._lazy)
        return await super().astream(prompt, **prompt_args)

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        """The calls of a response, whole or on its way; ValueError for none."""
        return selections(response, error_on_no_tool_call)

    def _prepare_chat_with_tools(
        self,
        tools: Sequence[BaseTool],
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        verbose: bool = False,
        allow_parallel_tool_calls: bool = False,
        tool_required: bool = False,
        tool_choice: str | Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        messages = list(chat_history or ())
        if user_msg is not None:
            messages.append(user_msg if isinstance(user_msg, ChatMessage) else ChatMessage(content=user_msg))
        offered = tool_mappings(tools)
        return {
            "messages": messages,
            "tools": offered,
            "tool_choice": chosen_tool(tool_choice, tool_names(offered), tool_required),
            "parallel_tool_calls": allow_parallel_tool_calls,
            **kwargs,
        }

    def _chat(self, messages: Sequence[ChatMessage], call: Mapping[str, Any]) -> Asked:
        own = self.messages_to_prompt
        prompt = read_chat(messages) if own is None or own is messages_to_prompt else own(messages)
        asked = chat_request(self, prompt, call)
        return Asked(lambda can: asked, timeout_of(self, call))

    def _complete(self, prompt: str, formatted: bool, call: Mapping[str, Any]) -> Asked:
        own, seconds = self.completion_to_prompt, timeout_of(self, call)
        if not formatted and (own is None or own is default_completion_to_prompt):
            bare = text_request(self, prompt, call)
            return Asked(lambda can: replace(bare, prompt=completion_prompt(prompt, can, self)), seconds)
        asked = text_request(self, prompt if formatted or own is None else own(prompt), call)
        return Asked(lambda can: asked, seconds)

    def _answer(self, asked: Asked) -> tuple[Growing, Delta]:
        with self._lazy.using() as engine:
            result = generating.generate(self._lazy, asked.by(engine.capabilities), asked.timeout)
            return Growing(self.model, engine.tokenizer, streamed=False), generating.whole(result)

    async def _aanswer(self, asked: Asked) -> tuple[Growing, Delta]:
        async with self._lazy.ausing() as engine:
            result = await generating.agenerate(self._lazy, asked.by(engine.capabilities), asked.timeout)
            return Growing(self.model, engine.tokenizer, streamed=False), generating.whole(result)

    def _stream(self, asked: Asked) -> Generator[tuple[Growing, Delta]]:
        with self._lazy.using() as engine:
            growing = Growing(self.model, engine.tokenizer)
            for delta in generating.stream(self._lazy, asked.by(engine.capabilities), asked.timeout):
                yield growing, delta

    async def _astream(self, asked: Asked) -> AsyncGenerator[tuple[Growing, Delta]]:
        async with self._lazy.ausing() as engine:
            growing = Growing(self.model, engine.tokenizer)
            async for delta in generating.astream(self._lazy, asked.by(engine.capabilities), asked.timeout):
                yield growing, delta
