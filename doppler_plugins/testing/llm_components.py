"""The contract of LlamaIndex's own components: engines and agents that are given the class."""

from typing import Any

import pytest
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.agent.workflow import (
    AgentOutput,
    AgentStream,
    AgentWorkflow,
    FunctionAgent,
    ToolCallResult,
)
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.schema import TextNode
from llama_index.core.tools import FunctionTool

from doppler_plugins.testing.llm_suite import QUESTION, LLMSuite, run
from doppler_plugins.testing.llm_tools import REQUEST, Mixing, mix_paint

DOCUMENTS = ["Owls eat mice and voles.", "Kestrels hover over fields.", "Ponds freeze over from the edge."]


class LLMComponents(LLMSuite):
    """What users put the class into."""

    @pytest.fixture
    def memory(self, llm: FunctionCallingLLM) -> ChatMemoryBuffer:
        """A memory without the database that LlamaIndex's usual one leaves open, its thread included."""
        return ChatMemoryBuffer.from_defaults(llm=llm)

    @pytest.fixture
    def index(self) -> VectorStoreIndex:
        """An index that finds the same ones for any question: where all are equally near, their ids decide."""
        # The last first: a model too small to word the question anew says nothing at all to another order, and
        # LlamaIndex looks for nothing then.
        nodes = [
            TextNode(text=text, id_=f"document {number}") for number, text in enumerate(reversed(DOCUMENTS))
        ]
        return VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=4))

    @pytest.mark.parametrize("mode", ["compact", "refine", "tree_summarize"])
    def test_a_query_engine_answers(self, llm: FunctionCallingLLM, index: Any, mode: str) -> None:
        engine = index.as_query_engine(llm=llm, response_mode=mode)
        whole = str(engine.query(QUESTION))
        assert whole
        assert str(run(engine.aquery(QUESTION))) == whole

    def test_a_query_engine_streams(self, llm: FunctionCallingLLM, index: Any) -> None:
        whole = str(index.as_query_engine(llm=llm).query(QUESTION))
        streaming = index.as_query_engine(llm=llm, streaming=True)
        assert "".join(streaming.query(QUESTION).response_gen) == whole

        async def pieces() -> list[str]:
            response = await streaming.aquery(QUESTION)
            return [piece async for piece in response.async_response_gen()]

        assert "".join(run(pieces())) == whole

    @pytest.mark.parametrize("mode", ["context", "condense_plus_context"])
    def test_a_chat_engine_holds_a_conversation(
        self, llm: FunctionCallingLLM, index: Any, memory: ChatMemoryBuffer, mode: str
    ) -> None:
        engine = index.as_chat_engine(chat_mode=mode, llm=llm, memory=memory)
        first = engine.chat(QUESTION)
        second = engine.stream_chat("And in winter?")
        assert str(first)
        assert "".join(second.response_gen).strip() == second.response
        assert [message.role.value for message in engine.chat_history] == ["user", "assistant"] * 2

    def test_a_simple_chat_engine_awaits(self, llm: FunctionCallingLLM, memory: ChatMemoryBuffer) -> None:
        async def both() -> list[str]:
            engine = SimpleChatEngine.from_defaults(llm=llm, system_prompt="Be brief.", memory=memory)
            first = await engine.achat(QUESTION)
            second = await engine.astream_chat("And in winter?")
            return [str(first), "".join([piece async for piece in second.async_response_gen()])]

        assert all(run(both()))

    # Agents look at all members of their own pydantic class, deprecated ones included.
    @pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20")
    @pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211")
    @pytest.mark.parametrize("streaming", [True, False])
    @pytest.mark.parametrize("workflow", [True, False])
    def test_an_agent_calls_its_tool(
        self, llm: FunctionCallingLLM, memory: ChatMemoryBuffer, streaming: bool, workflow: bool
    ) -> None:
        if not self.has_tool_calling:
            return
        # The tool's result is the answer: what a model says after it is its own affair.
        tool = FunctionTool.from_defaults(mix_paint, fn_schema=Mixing, return_direct=True)
        agent = FunctionAgent(
            name="painter",
            description="Mixes paints.",
            tools=[tool],
            llm=llm,
            streaming=streaming,
            initial_tool_choice="mix_paint",
            allow_parallel_tool_calls=False,
        )

        async def events() -> tuple[AgentOutput, list[Any]]:
            runner: Any = AgentWorkflow(agents=[agent]) if workflow else agent
            handler = runner.run(user_msg=REQUEST, memory=memory)
            seen = [event async for event in handler.stream_events()]
            return await handler, seen

        output, seen = run(events())
        results = [event for event in seen if isinstance(event, ToolCallResult)]
        assert [str(output.response.content)] == [mix_paint(**one.tool_kwargs) for one in results]
        chunks = [event for event in seen if isinstance(event, AgentStream)]
        assert bool(chunks) is streaming
        assert all(call.tool_name == "mix_paint" for chunk in chunks for call in chunk.tool_calls)
