"""The contract of tools: given on every form, called whole or not at all, found in every response on its way."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Literal

import pytest
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, ToolCallBlock
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel, Field

from doppler_plugins.testing.llm_suite import LLMSuite, gathered, run

Asking = Callable[..., list[ChatResponse]]


class Mixing(BaseModel):
    """What `mix_paint` takes. Every value is bounded, so that any model comes to an end within a grammar."""

    base: Literal["red", "green", "blue"] = Field(description="The color to begin with.")
    drops: int = Field(ge=0, le=9, description="How many drops of white.")
    glossy: bool = False


def mix_paint(base: str, drops: int, glossy: bool = False) -> str:
    """Mix a paint."""
    return f"{base} with {drops} drops, {'glossy' if glossy else 'matt'}"


def ring_bell() -> str:
    """Ring the bell."""
    return "dong"


MIX = FunctionTool.from_defaults(mix_paint, fn_schema=Mixing)
RING = FunctionTool.from_defaults(ring_bell)
REQUEST = "Mix me a red paint with 3 drops of white."


def whole(llm: FunctionCallingLLM, **words: Any) -> list[ChatResponse]:
    return [llm.chat_with_tools(user_msg=REQUEST, **words)]


def awaited(llm: FunctionCallingLLM, **words: Any) -> list[ChatResponse]:
    return [run(llm.achat_with_tools(user_msg=REQUEST, **words))]


def streamed(llm: FunctionCallingLLM, **words: Any) -> list[ChatResponse]:
    return list(llm.stream_chat_with_tools(user_msg=REQUEST, **words))


def awaited_stream(llm: FunctionCallingLLM, **words: Any) -> list[ChatResponse]:
    return run(gathered(llm.astream_chat_with_tools(user_msg=REQUEST, **words)))


each_form = pytest.mark.parametrize("ask", [whole, awaited, streamed, awaited_stream])


class LLMTools(LLMSuite):
    """What agents and programs build on."""

    @pytest.fixture(autouse=True)
    def _needs_tools(self) -> None:
        if not self.has_tool_calling:
            pytest.skip("this class says that it calls no tools")

    @each_form
    def test_a_call_that_is_required_comes(self, llm: FunctionCallingLLM, ask: Asking) -> None:
        (*_, last) = ask(llm, tools=[MIX, RING], tool_required=True)
        calls = llm.get_tool_calls_from_response(last)
        assert calls
        assert {call.tool_name for call in calls} <= {"mix_paint", "ring_bell"}
        assert len({call.tool_id for call in calls} - {""}) == len(calls)

    @each_form
    def test_the_tool_that_is_chosen_is_called(self, llm: FunctionCallingLLM, ask: Asking) -> None:
        (*_, last) = ask(llm, tools=[RING, MIX], tool_choice="mix_paint")
        for call in llm.get_tool_calls_from_response(last):
            assert call.tool_name == "mix_paint"
            assert Mixing.model_validate(call.tool_kwargs)

    @each_form
    def test_a_tool_that_takes_nothing_is_called_with_nothing(
        self, llm: FunctionCallingLLM, ask: Asking
    ) -> None:
        (*_, last) = ask(llm, tools=[RING], tool_required=True, allow_parallel_tool_calls=False)
        (call,) = llm.get_tool_calls_from_response(last)
        assert (call.tool_name, call.tool_kwargs) == ("ring_bell", {})

    @each_form
    def test_without_parallel_calls_one_comes(self, llm: FunctionCallingLLM, ask: Asking) -> None:
        (*_, last) = ask(llm, tools=[MIX, RING], tool_required=True, allow_parallel_tool_calls=False)
        assert len(llm.get_tool_calls_from_response(last)) == 1

    @each_form
    def test_without_a_choice_of_any_none_comes(self, llm: FunctionCallingLLM, ask: Asking) -> None:
        responses = ask(llm, tools=[MIX, RING], tool_choice="none")
        assert llm.get_tool_calls_from_response(responses[-1], error_on_no_tool_call=False) == []
        with pytest.raises(ValueError, match="call"):
            llm.get_tool_calls_from_response(responses[-1])

    @pytest.mark.parametrize("ask", [streamed, awaited_stream])
    def test_calls_grow_whole_in_a_stream(self, llm: FunctionCallingLLM, ask: Asking) -> None:
        chunks = ask(llm, tools=[MIX, RING], tool_required=True, allow_parallel_tool_calls=True)
        seen = [llm.get_tool_calls_from_response(chunk, error_on_no_tool_call=False) for chunk in chunks]
        for before, after in pairwise(seen):
            assert after[: len(before)] == before
        assert seen[-1]
        for chunk in chunks:
            blocks = [block for block in chunk.message.blocks if isinstance(block, ToolCallBlock)]
            assert all(isinstance(block.tool_kwargs, dict) for block in blocks)

    def test_what_is_given_stays_as_it_was(self, llm: FunctionCallingLLM) -> None:
        history, tools = [ChatMessage(content="Hello.")], [MIX]
        for ask in (whole, awaited, streamed, awaited_stream):
            ask(llm, tools=tools, chat_history=history, tool_required=True)
        assert (history, tools) == ([ChatMessage(content="Hello.")], [MIX])

    def test_results_can_be_answered_by_their_ids_alone(self, llm: FunctionCallingLLM) -> None:
        asked = ChatMessage(content=REQUEST)
        made = llm.chat_with_tools([MIX], chat_history=[asked], tool_required=True).message
        results = [
            ChatMessage(role="tool", content="done", additional_kwargs={"tool_call_id": block.tool_call_id})
            for block in made.blocks
            if isinstance(block, ToolCallBlock)
        ]
        answer = llm.chat_with_tools([MIX], chat_history=[asked, made, *results], tool_choice="none")
        assert isinstance(answer.message.content, str)

    @pytest.mark.parametrize("parallel", [True, False])
    def test_a_prediction_calls_the_tool(self, llm: FunctionCallingLLM, parallel: bool) -> None:
        words: dict[str, Any] = {"tool_required": True, "allow_parallel_tool_calls": parallel}
        for answer in (
            llm.predict_and_call([MIX], user_msg=REQUEST, **words),
            run(llm.apredict_and_call([MIX], user_msg=REQUEST, **words)),
        ):
            assert answer.sources
            for source in answer.sources:
                assert source.raw_output == mix_paint(**source.raw_input["kwargs"])
