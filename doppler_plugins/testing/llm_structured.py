"""The contract of structured predictions: what comes is an object of the class, from every form."""

from typing import Any, Literal

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.program import FunctionCallingProgram
from llama_index.core.prompts import ChatPromptTemplate, PromptTemplate
from pydantic import BaseModel, Field

from doppler_plugins.testing.llm_suite import LLMSuite, Seen, gathered, run


class Spot(BaseModel):
    """A place."""

    side: Literal["left", "right"]
    floor: int = Field(ge=0, le=9)


class Bird(BaseModel):
    """A bird that was seen. Every value is bounded, so that any model comes to an end within a grammar."""

    kind: Literal["owl", "kestrel", "other"]
    count: int = Field(ge=1, le=9)
    flying: bool
    spot: Spot | None
    colors: list[Literal["brown", "white"]] = Field(max_length=2)


PROMPT = PromptTemplate("What was seen? {what}")
WHAT = "Two brown owls flew by, on the left."


class LLMStructured(LLMSuite):
    """What extraction and query engines with an output class build on."""

    @pytest.fixture(autouse=True)
    def _needs_structure(self) -> None:
        if not self.has_structured_output:
            pytest.skip("this class says that its predictions may not validate")

    def test_the_forms_give_one_object(self, llm: FunctionCallingLLM) -> None:
        whole = llm.structured_predict(Bird, PROMPT, what=WHAT)
        awaited = run(llm.astructured_predict(Bird, PROMPT, what=WHAT))
        streamed = list(llm.stream_structured_predict(Bird, PROMPT, what=WHAT))
        both = run(gathered(llm.astream_structured_predict(Bird, PROMPT, what=WHAT)))
        assert isinstance(whole, Bird)
        assert [awaited, streamed[-1], both[-1]] == [whole] * 3

    def test_a_stream_fills_the_object(self, llm: FunctionCallingLLM) -> None:
        objects = list(llm.stream_structured_predict(Bird, PROMPT, what=WHAT))
        known = [len(one.model_dump(exclude_none=True)) for one in objects]
        assert known == sorted(known)
        assert len(objects) > 2
        for one in objects:
            assert set(Bird.model_fields) <= set(one.model_dump())

    def test_messages_are_a_prompt_too(self, llm: FunctionCallingLLM) -> None:
        messages = [ChatMessage(role="system", content="You watch birds."), ChatMessage(content="{what}")]
        prompt: Any = ChatPromptTemplate(message_templates=messages)
        assert isinstance(llm.structured_predict(Bird, prompt, what=WHAT), Bird)

    def test_words_go_with_the_prediction(self, llm: FunctionCallingLLM) -> None:
        words = {"max_tokens": 1}
        with pytest.raises(ValueError, match=r"Bird|json|JSON"):
            llm.structured_predict(Bird, PROMPT, llm_kwargs=words, what=WHAT)
        assert words == {"max_tokens": 1}

    def test_a_structured_llm_is_one(self, llm: FunctionCallingLLM) -> None:
        structured = llm.as_structured_llm(Bird)
        message = [ChatMessage(content=WHAT)]
        answers = [
            structured.chat(message),
            structured.complete(WHAT),
            run(structured.achat(message)),
            list(structured.stream_chat(message))[-1],
            run(gathered(structured.astream_chat(message)))[-1],
        ]
        assert all(isinstance(answer.raw, Bird) for answer in answers)

    def test_events_tell_of_the_prediction(self, llm: FunctionCallingLLM) -> None:
        with Seen() as seen:
            llm.structured_predict(Bird, PROMPT, what=WHAT)
        assert seen.names[0] == "LLMStructuredPredictStartEvent"
        assert seen.names[-1] == "LLMStructuredPredictEndEvent"

    def test_a_program_that_calls_a_tool_gives_the_object(self, llm: FunctionCallingLLM) -> None:
        if not self.has_tool_calling:
            return
        program = FunctionCallingProgram.from_defaults(output_cls=Bird, prompt=PROMPT, llm=llm)
        assert isinstance(program(what=WHAT), Bird)
        assert isinstance(run(program.acall(what=WHAT)), Bird)
