"""The contract of the eight call forms: whole and as they come, waited for and awaited."""

import copy
import pickle
from typing import Any

import pytest
from llama_index.core.base.llms.types import (
    AudioBlock,
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
)
from llama_index.core.callbacks import CallbackManager, TokenCountingHandler
from llama_index.core.llms.function_calling import FunctionCallingLLM

from doppler_plugins.testing.llm_suite import CONVERSATION, QUESTION, LLMSuite, Seen, gathered, run, text_of

FORMS = {"chat": CONVERSATION, "complete": QUESTION}
each_form = pytest.mark.parametrize("form", FORMS)


class LLMForms(LLMSuite):
    """Every form gives one and the same answer."""

    def test_it_has_a_name_of_its_own(self, llm: FunctionCallingLLM) -> None:
        assert llm.class_name() not in (FunctionCallingLLM.class_name(), "base_component", "")
        assert llm.metadata.model_name not in ("unknown", "")

    def test_it_tells_how_much_it_takes(self, llm: FunctionCallingLLM) -> None:
        told = llm.metadata
        assert told.is_chat_model
        assert told.is_function_calling_model is self.has_tool_calling
        assert 0 < told.num_output < told.context_window

    def test_an_unknown_word_is_refused(self) -> None:
        with pytest.raises(ValueError, match="temprature"):
            self.llm_class(**{**self.llm_params, "temprature": 0.5})

    @each_form
    def test_the_four_forms_say_the_same(self, llm: FunctionCallingLLM, form: str) -> None:
        prompt = FORMS[form]
        whole = getattr(llm, form)(prompt)
        streamed = list(getattr(llm, f"stream_{form}")(prompt))
        awaited = run(getattr(llm, f"a{form}")(prompt))
        both = run(gathered(getattr(llm, f"astream_{form}")(prompt)))
        assert text_of(whole)
        assert [text_of(one) for one in (awaited, streamed[-1], both[-1])] == [text_of(whole)] * 3

    @each_form
    def test_a_stream_grows_by_its_deltas(self, llm: FunctionCallingLLM, form: str) -> None:
        for chunks in (
            list(getattr(llm, f"stream_{form}")(FORMS[form])),
            run(gathered(getattr(llm, f"astream_{form}")(FORMS[form]))),
        ):
            so_far = ""
            for chunk in chunks:
                assert isinstance(chunk.delta, str)
                so_far += chunk.delta
                assert text_of(chunk) == so_far
            assert len(chunks) > 1

    def test_an_answer_is_one_block_of_text_from_the_assistant(self, llm: FunctionCallingLLM) -> None:
        for response in (llm.chat(CONVERSATION), *llm.stream_chat(CONVERSATION)):
            assert response.message.role == "assistant"
            assert [type(block) for block in response.message.blocks] == [TextBlock]

    @each_form
    def test_tokens_are_counted(self, llm: FunctionCallingLLM, form: str) -> None:
        whole = getattr(llm, form)(FORMS[form])
        (*_, last) = getattr(llm, f"stream_{form}")(FORMS[form])
        for response in (whole, last):
            usage = response.raw["usage"]
            assert usage["prompt_tokens"] > 0
            assert usage["completion_tokens"] > 0
            assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
            assert response.additional_kwargs["completion_tokens"] == usage["completion_tokens"]
        counter = TokenCountingHandler(tokenizer=str.split)
        llm.callback_manager = CallbackManager([counter])
        again = getattr(llm, form)(FORMS[form])
        assert counter.completion_llm_token_count == again.raw["usage"]["completion_tokens"]
        assert counter.prompt_llm_token_count == again.raw["usage"]["prompt_tokens"]

    @each_form
    def test_an_answer_that_is_cut_says_so(self, llm: FunctionCallingLLM, form: str) -> None:
        cut = getattr(llm, form)(FORMS[form], max_tokens=1)
        (*_, last) = getattr(llm, f"stream_{form}")(FORMS[form], max_tokens=1)
        for response in (cut, last):
            assert response.raw["finish_reason"] == "length"
            assert response.raw["usage"]["completion_tokens"] == 1

    def test_one_event_begins_and_one_ends_each_call(self, llm: FunctionCallingLLM) -> None:
        with Seen() as seen:
            llm.chat(CONVERSATION)
            run(llm.acomplete(QUESTION))
        assert seen.names == [
            "LLMChatStartEvent",
            "LLMChatEndEvent",
            "LLMCompletionStartEvent",
            "LLMCompletionEndEvent",
        ]
        with Seen() as seen:
            chunks = list(llm.stream_chat(CONVERSATION))
        assert seen.names == [
            "LLMChatStartEvent",
            *["LLMChatInProgressEvent"] * len(chunks),
            "LLMChatEndEvent",
        ]

    def test_texts_that_stand_apart_are_told_like_one(self, llm: FunctionCallingLLM) -> None:
        apart = ChatMessage(blocks=[TextBlock(text="What do"), TextBlock(text="owls eat?")])
        together = ChatMessage(content="What do\nowls eat?")
        assert llm.chat([apart]).message == llm.chat([together]).message

    @pytest.mark.parametrize("block", [ImageBlock(image=b"GIF89a"), AudioBlock(audio=b"RIFF", format="wav")])
    def test_what_it_cannot_read_is_an_error(self, llm: FunctionCallingLLM, block: Any) -> None:
        with pytest.raises(ValueError, match=r"image|audio"):
            llm.chat([ChatMessage(blocks=[TextBlock(text="See:"), block])])

    def test_no_messages_are_an_error(self, llm: FunctionCallingLLM) -> None:
        with pytest.raises(ValueError, match="message"):
            llm.chat([])

    def test_what_it_is_given_stays_as_it_was(self, llm: FunctionCallingLLM) -> None:
        messages = copy.deepcopy(CONVERSATION)
        llm.chat(messages)
        list(llm.stream_chat(messages))
        run(llm.achat(messages))
        assert messages == CONVERSATION

    def test_copies_and_pickles_work_before_and_after_use(self, llm: FunctionCallingLLM) -> None:
        unused = [copy.deepcopy(llm), pickle.loads(pickle.dumps(llm))]
        expected = llm.complete(QUESTION).text
        used = [copy.deepcopy(llm), pickle.loads(pickle.dumps(llm))]
        assert [other.complete(QUESTION).text for other in unused + used] == [expected] * 4

    def test_its_dict_makes_an_equal_one_and_is_stable(self, llm: FunctionCallingLLM) -> None:
        first = llm.to_dict()
        llm.complete(QUESTION)
        assert llm.to_dict() == first
        assert " at 0x" not in str(first)
        assert self.llm_class.from_dict(first).to_dict() == first

    def test_thoughts_stand_beside_the_answer(self, llm: FunctionCallingLLM) -> None:
        if self.thinking_words is None:
            return
        chunks = list(llm.stream_chat(CONVERSATION, **self.thinking_words))
        deltas = [chunk.additional_kwargs.get("thinking_delta") or "" for chunk in chunks]
        thought, said = chunks[-1].message.blocks
        assert isinstance(thought, ThinkingBlock)
        assert isinstance(said, TextBlock)
        assert thought.content == "".join(deltas)
        assert said.text == "".join(str(chunk.delta) for chunk in chunks)
        assert llm.chat(CONVERSATION, **self.thinking_words).message == chunks[-1].message

    def test_each_token_has_its_logarithm(self, llm: FunctionCallingLLM) -> None:
        if self.logprobs_words is None:
            return
        answers: list[ChatResponse | CompletionResponse] = [
            llm.chat(CONVERSATION, **self.logprobs_words),
            llm.complete(QUESTION, **self.logprobs_words),
            list(llm.stream_chat(CONVERSATION, **self.logprobs_words))[-1],
        ]
        for answer in answers:
            assert answer.logprobs
            assert all(one[0].logprob <= 0 for one in answer.logprobs)
